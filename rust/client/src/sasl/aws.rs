//! Tokens that AWS stands for: presigned URLs for Amazon MSK's IAM, and JWTs of its security token service (STS). The
//! credentials are those that the environment, the container or the instance gives; profiles are botocore's.

mod credentials;
mod msk_iam;
mod sigv4;
mod sts;
mod web_identity;

pub(super) use self::msk_iam::source as msk_iam;
pub(super) use self::web_identity::source as web_identity;

/// The domain of a region's services.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}
