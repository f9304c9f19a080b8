//! The core of the admin clients' methods about ACLs, SCRAM credentials, client quotas and delegation tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_client::admin::{
    Acl, AclBinding, AclOperation, AclPatternType, AclPermissionType, AclResourceType, Admin, DelegationToken,
    Principal, QuotaEntity, QuotaMatch, ScramAlteration, ScramCredentialInfo, ScramMechanism, UserMechanism,
};
use monedula_client::error::ClientError;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::admin::values;
use crate::admin::{CallTimeout, start};
use crate::error::to_py;
use crate::operation::Operation;
use crate::runtime::Own;
use crate::secret::PySecret;

/// An ACL (`Text` is `String`) or a filter of ACLs (`Option<String>`): type, name and pattern type of the resource,
/// principal, host, operation, type of permission.
type PyAcl<Text> = (String, Text, String, Text, Text, String, String);

/// The change of a credential: user, mechanism, and for a new password: the number of iterations, salt, password.
type PyAlteration = (String, String, Option<(u32, Vec<u8>, PySecret)>);

/// An entity that has quotas: its name by type, `None` for the default of the type.
type PyEntity = Vec<(String, Option<String>)>;

/// Condition on a type of an entity: the type, "name", "default" or "any", and the name.
type PyComponent = (String, String, Option<String>);

/// A delegation token: id, HMAC, owner, requester, renewers, timestamps of issue and expiry, and the latest expiry.
type PyToken = (String, PySecret, String, Option<String>, Vec<String>, i64, i64, i64);

/// The methods about security of `AdminCore`, which makes it.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct AdminSecurityCore {
    pub(crate) admin: Own<Arc<Admin>>,
}

#[pymethods]
impl AdminSecurityCore {
    fn describe_acls(&self, py: Python<'_>, timeout: CallTimeout, acls: PyAcl<Option<String>>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.describe_acls(acl(acls).map_err(to(py))?, timeout.of(admin));
        start(admin, call, |py, acls| acls.into_iter().map(py_acl).collect::<Vec<_>>().into_py_any(py))
    }

    fn create_acls(&self, py: Python<'_>, timeout: CallTimeout, acls: Vec<PyAcl<String>>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let acls: Result<Vec<_>, _> = acls.into_iter().map(acl).collect();
        let call = admin.create_acls(acls.map_err(to(py))?, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, py_acl, values::nothing))
    }

    fn delete_acls(
        &self,
        py: Python<'_>,
        timeout: CallTimeout,
        filters: Vec<PyAcl<Option<String>>>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let filters: Result<Vec<_>, _> = filters.into_iter().map(acl).collect();
        let call = admin.delete_acls(filters.map_err(to(py))?, timeout.of(admin));
        let deleted = |acls: Vec<AclBinding>| acls.into_iter().map(py_acl).collect::<Vec<_>>();
        start(admin, call, move |py, items| values::items(py, items, py_acl, deleted))
    }

    fn describe_user_scram_credentials(&self, timeout: CallTimeout, users: Option<Vec<String>>) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.describe_user_scram_credentials(users, timeout.of(admin));
        let credentials = |infos: Vec<ScramCredentialInfo>| {
            let info = |info: ScramCredentialInfo| (info.mechanism.to_string(), info.iterations);
            infos.into_iter().map(info).collect::<Vec<_>>()
        };
        start(admin, call, move |py, items| values::items(py, items, |user| user, credentials))
    }

    fn alter_user_scram_credentials(
        &self,
        py: Python<'_>,
        timeout: CallTimeout,
        alterations: Vec<PyAlteration>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let alterations: Result<Vec<_>, _> = alterations.into_iter().map(alteration).collect();
        let call = admin.alter_user_scram_credentials(alterations.map_err(to(py))?, timeout.of(admin));
        let credential = |(user, mechanism): UserMechanism| (user, mechanism.to_string());
        start(admin, call, move |py, items| values::items(py, items, credential, values::nothing))
    }

    fn describe_client_quotas(
        &self,
        timeout: CallTimeout,
        components: Vec<PyComponent>,
        strict: bool,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let components = components.into_iter().map(component).collect();
        let call = admin.describe_client_quotas(components, strict, timeout.of(admin));
        start(admin, call, |py, entries| values::sure(py, entries, py_entity, |quotas| quotas))
    }

    fn alter_client_quotas(
        &self,
        timeout: CallTimeout,
        changes: Vec<(PyEntity, BTreeMap<String, Option<f64>>)>,
        validate_only: bool,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let changes = changes.into_iter().map(|(entity, quotas)| (QuotaEntity(entity.into_iter().collect()), quotas));
        let call = admin.alter_client_quotas(changes.collect(), validate_only, timeout.of(admin));
        start(admin, call, |py, items| values::items(py, items, py_entity, values::nothing))
    }

    fn create_delegation_token(
        &self,
        py: Python<'_>,
        timeout: CallTimeout,
        owner: Option<String>,
        renewers: Vec<String>,
        max_lifetime_ms: i64,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let owner = owner.as_deref().map(Principal::parse).transpose().map_err(to(py))?;
        let renewers = principals(renewers).map_err(to(py))?;
        let timeout = timeout.of(admin);
        let call = admin.create_delegation_token(owner, renewers, max_lifetime_ms, timeout);
        start(admin, call, |py, token| py_token(token).into_py_any(py))
    }

    fn renew_delegation_token(&self, timeout: CallTimeout, hmac: PySecret, period_ms: i64) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.renew_delegation_token(hmac.0, period_ms, timeout.of(admin));
        start(admin, call, |py, expiry| expiry.into_py_any(py))
    }

    fn expire_delegation_token(&self, timeout: CallTimeout, hmac: PySecret, period_ms: i64) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let call = admin.expire_delegation_token(hmac.0, period_ms, timeout.of(admin));
        start(admin, call, |py, expiry| expiry.into_py_any(py))
    }

    fn describe_delegation_tokens(
        &self,
        py: Python<'_>,
        timeout: CallTimeout,
        owners: Option<Vec<String>>,
    ) -> PyResult<Operation> {
        let admin = self.admin.get()?;
        let owners = owners.map(principals).transpose().map_err(to(py))?;
        let call = admin.describe_delegation_tokens(owners, timeout.of(admin));
        start(admin, call, |py, tokens| tokens.into_iter().map(py_token).collect::<Vec<_>>().into_py_any(py))
    }
}

fn to(py: Python<'_>) -> impl Fn(ClientError) -> PyErr {
    move |error| to_py(py, error)
}

fn acl<Text>(
    (resource_type, resource_name, pattern_type, principal, host, operation, permission_type): PyAcl<Text>,
) -> Result<Acl<Text>, ClientError> {
    Ok(Acl {
        resource_type: AclResourceType::from_word(&resource_type)?,
        resource_name,
        pattern_type: AclPatternType::from_word(&pattern_type)?,
        principal,
        host,
        operation: AclOperation::from_word(&operation)?,
        permission_type: AclPermissionType::from_word(&permission_type)?,
    })
}

fn py_acl<Text>(acl: Acl<Text>) -> PyAcl<Text> {
    let Acl { resource_type, resource_name, pattern_type, principal, host, operation, permission_type } = acl;
    let (resource_type, pattern_type) = (resource_type.to_string(), pattern_type.to_string());
    let (operation, permission_type) = (operation.to_string(), permission_type.to_string());
    (resource_type, resource_name, pattern_type, principal, host, operation, permission_type)
}

fn alteration((user, mechanism, new): PyAlteration) -> Result<(UserMechanism, ScramAlteration), ClientError> {
    let credential = (user, ScramMechanism::from_word(&mechanism)?);
    let alteration = match new {
        Some((iterations, salt, PySecret(password))) => ScramAlteration::Upsert { iterations, salt, password },
        None => ScramAlteration::Delete,
    };
    Ok((credential, alteration))
}

fn component((kind, wanted, name): PyComponent) -> (String, QuotaMatch) {
    let wanted = match (wanted.as_str(), name) {
        ("default", _) => QuotaMatch::Default,
        ("name", Some(name)) => QuotaMatch::Name(name),
        _ => QuotaMatch::Any,
    };
    (kind, wanted)
}

fn py_entity(entity: QuotaEntity) -> PyEntity {
    entity.0.into_iter().collect()
}

fn principals(texts: Vec<String>) -> Result<Vec<Principal>, ClientError> {
    texts.iter().map(|text| Principal::parse(text)).collect()
}

fn py_token(token: DelegationToken) -> PyToken {
    (
        token.token_id,
        PySecret(token.hmac),
        token.owner.to_string(),
        token.requester.map(|requester| requester.to_string()),
        token.renewers.iter().map(Principal::to_string).collect(),
        token.issue_timestamp_ms,
        token.expiry_timestamp_ms,
        token.max_timestamp_ms,
    )
}
