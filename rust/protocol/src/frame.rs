//! Encodes and decodes frames, for clients and brokers: a length, a header and a body.

use crate::api::{ApiKey, Message, Request};
use crate::error::WireError;
use crate::messages::header::{RequestHeader, ResponseHeader};
use crate::wire::{Reader, Writer};

/// Size of the length prefix of every frame.
const LENGTH_BYTES: usize = 4;

/// Length of the frame behind `prefix`, checked before anything is allocated for it.
///
/// # Errors
/// [`WireError::FrameLength`] if it is negative or above `max_bytes`.
pub fn frame_length(prefix: [u8; 4], max_bytes: usize) -> Result<usize, WireError> {
    let length = i32::from_be_bytes(prefix);
    match usize::try_from(length) {
        Ok(bytes) if bytes <= max_bytes => Ok(bytes),
        _ => Err(WireError::FrameLength { length, limit: max_bytes }),
    }
}

/// Encodes a whole request: length, header and body.
///
/// # Errors
/// Errors of [`Message::encode`], and a length that exceeds 32 bits.
pub fn encode_request<'a, R: Request<'a>>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Vec<u8>, WireError> {
    let header = RequestHeader {
        request_api_key: R::API_KEY.code(),
        request_api_version: version,
        correlation_id,
        client_id,
        ..RequestHeader::default()
    };
    let header_version = request_header_version(version, R::FLEXIBLE_FROM);
    encode_frame(&header, header_version, request, version)
}

/// The correlation id of a response. `frame` is without its length prefix.
///
/// # Errors
/// [`WireError::Truncated`] for fewer than four bytes.
pub fn correlation_id(frame: &[u8]) -> Result<i32, WireError> {
    Reader::new(frame).i32().map_err(|error| error.at("ResponseHeader", "correlation_id"))
}

/// Decodes the body of a response to `R`. `frame` is without its length prefix; the body borrows from it.
///
/// # Errors
/// Malformed bytes, including bytes left over behind the body.
pub fn decode_response<'r, 'q, R: Request<'q>>(frame: &'r [u8], version: i16) -> Result<R::Response<'r>, WireError> {
    let mut reader = Reader::new(frame);
    let header_version = response_header_version(R::API_KEY, version, R::FLEXIBLE_FROM);
    ResponseHeader::decode(&mut reader, header_version)?;
    decode_to_end(reader, version)
}

/// Decodes the header of a request, and returns it with a reader at the body. `frame` is without its length prefix.
///
/// The header of an unsupported higher version is decoded too, because a broker must respond to it: with its supported
/// versions to ApiVersions, with UNSUPPORTED_VERSION to any other API.
///
/// # Errors
/// [`WireError::UnknownApiKey`], and malformed bytes.
pub fn decode_request_header(frame: &[u8]) -> Result<(RequestHeader<'_>, Reader<'_>), WireError> {
    let mut reader = Reader::new(frame);
    let mut ahead = reader.clone();
    let code = ahead.i16().map_err(|error| error.at("RequestHeader", "request_api_key"))?;
    let version = ahead.i16().map_err(|error| error.at("RequestHeader", "request_api_version"))?;
    let key = ApiKey::from_code(code).ok_or(WireError::UnknownApiKey { code })?;
    let header_version = request_header_version(version, key.flexible_from());
    let header = RequestHeader::decode(&mut reader, header_version)?;
    Ok((header, reader))
}

/// Decodes the body of a request, from the reader that [`decode_request_header`] returned.
///
/// # Errors
/// Malformed bytes, including bytes left over behind the body.
pub fn decode_request_body<'a, R: Request<'a>>(reader: Reader<'a>, version: i16) -> Result<R, WireError> {
    decode_to_end(reader, version)
}

/// Encodes a whole response to `R`: length, header and body.
///
/// # Errors
/// Errors of [`Message::encode`], and a length that exceeds 32 bits.
pub fn encode_response<'q, 'r, R: Request<'q>>(
    response: &R::Response<'r>,
    version: i16,
    correlation_id: i32,
) -> Result<Vec<u8>, WireError> {
    let header = ResponseHeader { correlation_id, ..ResponseHeader::default() };
    let header_version = response_header_version(R::API_KEY, version, R::FLEXIBLE_FROM);
    encode_frame(&header, header_version, response, version)
}

/// Throttle time of a response: the milliseconds that the client must wait before its next request on this connection.
/// `frame` is without its length prefix. `None` for versions in which the broker itself delays the response (before
/// KIP-219), and for Produce and ApiVersions, whose throttle time is at the end of the response.
pub fn throttle_time_ms(api: ApiKey, version: i16, frame: &[u8]) -> Option<i32> {
    use ApiKey as Key;
    let first_version = match api {
        Key::Fetch => 8,
        Key::Metadata => 6,
        Key::OffsetCommit | Key::OffsetFetch => 4,
        Key::ListOffsets | Key::JoinGroup | Key::CreateTopics => 3,
        Key::FindCoordinator
        | Key::Heartbeat
        | Key::LeaveGroup
        | Key::SyncGroup
        | Key::DescribeGroups
        | Key::ListGroups
        | Key::DeleteTopics
        | Key::DescribeConfigs
        | Key::OffsetForLeaderEpoch => 2,
        Key::AddOffsetsToTxn
        | Key::AddPartitionsToTxn
        | Key::CreatePartitions
        | Key::DeleteGroups
        | Key::DeleteRecords
        | Key::DescribeLogDirs
        | Key::EndTxn
        | Key::InitProducerId
        | Key::TxnOffsetCommit => 1,
        Key::AlterPartitionReassignments
        | Key::ConsumerGroupDescribe
        | Key::ConsumerGroupHeartbeat
        | Key::DescribeCluster
        | Key::DescribeProducers
        | Key::DescribeTopicPartitions
        | Key::DescribeTransactions
        | Key::ElectLeaders
        | Key::GetTelemetrySubscriptions
        | Key::IncrementalAlterConfigs
        | Key::ListPartitionReassignments
        | Key::ListTransactions
        | Key::OffsetDelete
        | Key::PushTelemetry => 0,
        // Throttle time at the end of the response.
        _ => return None,
    };
    let header = if response_header_version(api, version, api.flexible_from()) > 0 { 5 } else { 4 };
    // The throttle time follows the error code in OffsetDelete, and is the first field in all others.
    let at = if api == Key::OffsetDelete { header + 2 } else { header };
    let bytes = frame.get(at..at + 4).filter(|_| version >= first_version)?;
    bytes.try_into().ok().map(i32::from_be_bytes)
}

fn encode_frame<'h, 'b>(
    header: &impl Message<'h>,
    header_version: i16,
    body: &impl Message<'b>,
    version: i16,
) -> Result<Vec<u8>, WireError> {
    let mut writer = Writer::new();
    writer.i32(0);
    header.encode(&mut writer, header_version)?;
    body.encode(&mut writer, version)?;
    let mut frame = writer.into_bytes();
    let length = frame.len() - LENGTH_BYTES;
    let prefix = i32::try_from(length).map_err(|_| {
        let limit = i32::MAX as usize;
        WireError::TooLong { place: Default::default(), length, limit }
    })?;
    frame[..LENGTH_BYTES].copy_from_slice(&prefix.to_be_bytes());
    Ok(frame)
}

fn decode_to_end<'a, M: Message<'a>>(mut reader: Reader<'a>, version: i16) -> Result<M, WireError> {
    let message = M::decode(&mut reader, version)?;
    reader.finish().map_err(|error| error.at(M::NAME, ""))?;
    Ok(message)
}

pub(crate) fn request_header_version(version: i16, flexible_from: i16) -> i16 {
    if version >= flexible_from { 2 } else { 1 }
}

fn response_header_version(key: ApiKey, version: i16, flexible_from: i16) -> i16 {
    // KIP-511: the client must be able to read this response before it knows the broker's versions.
    if key == ApiKey::ApiVersions {
        return 0;
    }
    i16::from(version >= flexible_from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
    use crate::messages::metadata::{MetadataRequest, MetadataResponse};
    use crate::messages::offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse};
    use crate::messages::produce::{ProduceRequest, ProduceResponse};

    fn body(frame: &[u8]) -> &[u8] {
        let (prefix, body) = frame.split_first_chunk().unwrap();
        assert_eq!(frame_length(*prefix, 1 << 20), Ok(body.len()));
        body
    }

    #[test]
    fn a_frame_length_is_checked_before_it_is_used() {
        assert_eq!(frame_length([0, 0, 1, 0], 256), Ok(256));
        let refused = |length| Err(WireError::FrameLength { length, limit: 256 });
        assert_eq!(frame_length([0, 0, 1, 1], 256), refused(257));
        assert_eq!(frame_length([0xff; 4], 256), refused(-1));
    }

    #[test]
    fn a_request_reaches_the_broker() {
        for version in 0..=4 {
            let request = ApiVersionsRequest { client_software_name: "monedula", ..Default::default() };
            let frame = encode_request(&request, version, 7, Some("me")).unwrap();
            let (header, reader) = decode_request_header(body(&frame)).unwrap();
            assert_eq!(header.request_api_key, 18);
            assert_eq!(header.request_api_version, version);
            assert_eq!((header.correlation_id, header.client_id), (7, Some("me")));
            let decoded: ApiVersionsRequest<'_> = decode_request_body(reader, version).unwrap();
            let name = if version < 3 { "" } else { "monedula" };
            assert_eq!(decoded.client_software_name, name);
        }
    }

    #[test]
    fn a_response_reaches_the_client() {
        let response = ApiVersionsResponse {
            api_keys: vec![ApiVersion { api_key: 1, max_version: 17, ..Default::default() }],
            ..Default::default()
        };
        let frame = encode_response::<ApiVersionsRequest<'_>>(&response, 3, 8).unwrap();
        assert_eq!(correlation_id(body(&frame)), Ok(8));
        // KIP-511: no tagged fields between the correlation id and the error code.
        assert_eq!(frame[8..10], [0, 0]);
        let decoded = decode_response::<ApiVersionsRequest<'_>>(body(&frame), 3);
        assert_eq!(decoded, Ok(response));
    }

    #[test]
    fn the_throttle_time_is_read_where_it_stands() {
        fn told<'q, R: Request<'q>>(version: i16, response: &R::Response<'_>) -> Option<i32> {
            let frame = encode_response::<R>(response, version, 8).unwrap();
            throttle_time_ms(R::API_KEY, version, body(&frame))
        }
        let metadata = MetadataResponse { throttle_time_ms: 250, ..Default::default() };
        for version in MetadataRequest::VERSIONS {
            // Before version 6 the broker itself delays the response (KIP-219).
            let expected = (version >= 6).then_some(250);
            assert_eq!(told::<MetadataRequest<'_>>(version, &metadata), expected, "{version}");
        }
        let deleted = OffsetDeleteResponse { error_code: 3, throttle_time_ms: 250, ..Default::default() };
        assert_eq!(told::<OffsetDeleteRequest<'_>>(0, &deleted), Some(250));
        let produced = ProduceResponse { throttle_time_ms: 250, ..Default::default() };
        assert_eq!(told::<ProduceRequest<'_>>(9, &produced), None);
        assert_eq!(throttle_time_ms(ApiKey::Fetch, 12, &[0; 8]), None, "cut off");
    }

    #[test]
    fn bytes_behind_a_response_are_refused() {
        let response = ApiVersionsResponse::default();
        let mut frame = encode_response::<ApiVersionsRequest<'_>>(&response, 0, 8).unwrap();
        frame.push(0);
        let error = decode_response::<ApiVersionsRequest<'_>>(&frame[4..], 0).unwrap_err();
        assert!(matches!(error, WireError::TrailingBytes { count: 1, .. }), "{error}");
        assert!(error.to_string().starts_with("ApiVersionsResponse: 1 bytes left over"), "{error}");
    }

    #[test]
    fn the_header_of_a_version_from_the_future_is_read() {
        let frame = [0, 18, 0, 99, 0, 0, 0, 5, 0xff, 0xff, 0, 1, 2, 3];
        let (header, reader) = decode_request_header(&frame).unwrap();
        assert_eq!((header.request_api_version, header.correlation_id), (99, 5));
        assert_eq!((header.client_id, reader.remaining()), (None, 3));
        let error = decode_request_body::<ApiVersionsRequest<'_>>(reader, 99).unwrap_err();
        assert_eq!(error.to_string(), "ApiVersionsRequest version 99 is not spoken here, only 0 to 5");
    }

    #[test]
    fn an_unknown_api_key_is_named() {
        let error = decode_request_header(&[0x7f, 0xff, 0, 0]).unwrap_err();
        assert_eq!(error, WireError::UnknownApiKey { code: i16::MAX });
    }

    #[test]
    fn a_request_that_the_version_cannot_carry_is_refused() {
        let request = MetadataRequest { topics: None, ..Default::default() };
        let error = encode_request(&request, 0, 1, None).unwrap_err();
        assert_eq!(error.to_string(), "MetadataRequest.topics: null, but version 0 cannot carry null");
        assert!(encode_request(&request, 1, 1, None).is_ok());
    }
}
