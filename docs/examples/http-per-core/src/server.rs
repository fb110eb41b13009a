//! The server's part of a core: answers `GET` and `HEAD` with the number of the core (HTTP/1.1, RFC 9112).

use std::net::Ipv4Addr;

use anyhow::Result;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::Socket;

use crate::queues::Queues;
use crate::stack::Stack;
use crate::HTTP;

/// Fields of a request's head, at most.
const FIELDS: usize = 64;
/// Bytes of a request's head, at most.
const HEAD: usize = 4096;
/// Bytes of an answer, at most.
const ANSWER: usize = 256;

/// What is to be done with the bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// The head of a request is not complete.
    Part,
    /// A request of so many bytes, with its answer, after which the connection may have to end.
    Request { bytes: usize, answer: String, end: bool },
}

/// A connection, or the wait for one.
struct Connection {
    socket: SocketHandle,
    /// What has come and is not answered.
    input: Vec<u8>,
}

/// A core's server.
pub struct Server {
    stack: Stack,
    connections: Vec<Connection>,
    core: u16,
}

impl Server {
    /// On a core's queues, for so many connections at a time.
    pub fn new(queues: Queues, address: Ipv4Addr, core: u16, connections: u16) -> Self {
        let mut stack = Stack::new(queues, address, u64::from(core));
        let connection = |_| Connection { socket: stack.add(), input: Vec::new() };
        let connections = (0..connections).map(connection).collect();
        Server { stack, connections, core }
    }

    /// Answers what has come.
    pub fn poll(&mut self) -> Result<()> {
        self.stack.poll()?;
        for connection in &mut self.connections {
            connection.turn(&mut self.stack, self.core);
        }
        Ok(())
    }
}

impl Connection {
    fn turn(&mut self, stack: &mut Stack, core: u16) {
        if !stack.socket(self.socket).is_open() {
            self.input.clear();
            // The port is not 0, and the socket is closed, so nothing can fail.
            let _ = stack.socket(self.socket).listen(HTTP);
            return;
        }
        // A client that reads no answers cannot ask on: what is not taken stays in its window.
        if self.input.len() < HEAD {
            stack.take(self.socket, &mut self.input);
        }
        let socket = stack.socket(self.socket);
        if !socket.may_send() {
            // It has had its last answer. A reset instead could come before that.
            self.input.clear();
        }
        let room =
            |socket: &Socket| socket.can_send() && socket.send_capacity() - socket.send_queue() >= ANSWER;
        while !self.input.is_empty() && room(socket) {
            let (bytes, answer, end) = match request(&self.input, core) {
                Said::Part if self.input.len() < HEAD => break,
                Said::Part => (self.input.len(), refusal("431 Request Header Fields Too Large"), true),
                Said::Request { bytes, answer, end } => (bytes, answer, end),
            };
            self.input.drain(..bytes);
            // There is room for it.
            let _ = socket.send_slice(answer.as_bytes());
            if end {
                socket.close();
            }
        }
        if !socket.may_recv() && room(socket) {
            // The peer has ended, and what is left of its input is no request.
            socket.close();
        }
    }
}

/// The first request of some bytes.
fn request(bytes: &[u8], core: u16) -> Said {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let all = bytes.len();
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Said::Part,
        Ok(httparse::Status::Complete(length)) => length,
        Err(_) => return Said::Request { bytes: all, answer: refusal("400 Bad Request"), end: true },
    };
    // A field may be there several times, each with a list (RFC 9110 5.6.1).
    let has = |name: &str, value: &str| {
        let of_name = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let mut listed = of_name.flat_map(|field| field.value.split(|&byte| byte == b','));
        listed.any(|one| one.trim_ascii().eq_ignore_ascii_case(value.as_bytes()))
    };
    // A body would be taken for the next request.
    let bodiless = !request.headers.iter().any(|field| {
        ["content-length", "transfer-encoding"].iter().any(|name| field.name.eq_ignore_ascii_case(name))
    });
    let method = request.method.unwrap_or_default();
    if !bodiless || !matches!(method, "GET" | "HEAD") {
        return Said::Request { bytes: all, answer: refusal("405 Method Not Allowed"), end: true };
    }
    let old = request.version == Some(0) && !has("connection", "keep-alive");
    let end = old || has("connection", "close");
    let body = format!("core {core}\n");
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n", body.len());
    answer += if end { "Connection: close\r\n\r\n" } else { "\r\n" };
    if method == "GET" {
        answer += &body;
    }
    Said::Request { bytes: length, answer, end }
}

fn refusal(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(bytes: &str) -> (usize, String, bool) {
        match request(bytes.as_bytes(), 1) {
            Said::Request { bytes, answer, end } => (bytes, answer, end),
            Said::Part => panic!("a part: {bytes}"),
        }
    }

    #[test]
    fn requests_are_answered_one_by_one() {
        let first = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let (bytes, answer, end) = answered(&format!("{first}GET /b HTTP/1.1\r\n\r\n"));
        assert_eq!((bytes, end), (first.len(), false));
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\ncore 1\n"),
            "{answer}"
        );
        assert!(answered("HEAD / HTTP/1.1\r\n\r\n").1.ends_with("Content-Length: 7\r\n\r\n"));
        assert_eq!(request(b"GET / HTTP/1.1\r\nHost", 1), Said::Part);
    }

    #[test]
    fn connections_end_as_the_client_says() {
        assert!(answered("GET / HTTP/1.0\r\n\r\n").2);
        assert!(!answered("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").2);
        assert!(answered("GET / HTTP/1.1\r\nconnection: close\r\n\r\n").2);
        assert!(answered("GET / HTTP/1.1\r\nConnection: keep-alive, Close\r\n\r\n").2);
        assert!(answered("GET / HTTP/1.1\r\nConnection: TE\r\nConnection: close ,TE\r\n\r\n").2);
        assert!(!answered("GET / HTTP/1.0\r\nConnection: TE,keep-alive\r\n\r\n").2);
        assert!(!answered("GET / HTTP/1.1\r\nConnection: closed\r\n\r\n").2);
    }

    #[test]
    fn what_is_no_request_ends_the_connection() {
        for (bytes, status) in [
            ("\0\0", "400"),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "405"),
        ] {
            let (all, answer, end) = answered(bytes);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
            assert_eq!((all, end), (bytes.len(), true));
        }
    }
}
