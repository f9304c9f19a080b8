//! What the floors share: one socket that sends a request and reads an answer, and this process's CPU time.

mod tls;

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use monedula_protocol::api::Request;
use monedula_protocol::frame;
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use tls::TlsSocket;

const METADATA_VERSION: i16 = 9;

pub(crate) trait Socket: Read + Write {}
impl<T: Read + Write> Socket for T {}

/// One connection to a broker.
pub(crate) struct Broker {
    pub(crate) socket: Box<dyn Socket>,
    /// The last answer, without its length.
    pub(crate) frame: Vec<u8>,
}

impl Broker {
    /// Connects; over TLS if a file of authorities is given.
    pub(crate) fn connect(address: &str, authorities: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let socket: Box<dyn Socket> = match authorities {
            None => Box::new(socket),
            Some(authorities) => Box::new(TlsSocket::connect(socket, host, authorities)?),
        };
        Ok(Self { socket, frame: Vec::new() })
    }

    /// The partitions of a topic.
    pub(crate) fn partitions(&mut self, topic: &str) -> Result<Vec<i32>, Box<dyn Error>> {
        let topics = vec![MetadataRequestTopic { name: Some(topic), ..Default::default() }];
        self.send(&MetadataRequest { topics: Some(topics), ..Default::default() }, METADATA_VERSION)?;
        self.receive()?;
        let response = frame::decode_response::<MetadataRequest<'_>>(&self.frame, METADATA_VERSION)?;
        let topic = response.topics.first().ok_or("no such topic")?;
        Ok(topic.partitions.iter().map(|partition| partition.partition_index).collect())
    }

    pub(crate) fn send<'a>(&mut self, request: &impl Request<'a>, version: i16) -> Result<(), Box<dyn Error>> {
        Ok(self.socket.write_all(&frame::encode_request(request, version, 0, None)?)?)
    }

    pub(crate) fn receive(&mut self) -> Result<(), Box<dyn Error>> {
        let mut prefix = [0; 4];
        self.socket.read_exact(&mut prefix)?;
        self.frame.resize(frame::frame_length(prefix, 1 << 30)?, 0);
        Ok(self.socket.read_exact(&mut self.frame)?)
    }
}

/// User and system time of this process so far, from `/proc`, in clock ticks of 1/100 s.
pub(crate) fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks =
        |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).ok_or("no /proc/self/stat");
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}
