//! A server that sends every message back, for test suites of WebSocket: `cargo run --release -p tieline-websocket
//! --example echo 127.0.0.1:9001`. It speaks the subprotocol `mqtt`, which Autobahn's suite asks for where its server's
//! entry has `"protocols": ["mqtt"]`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use tieline_websocket::{Offer, WebSocket, header};

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    let hosts = vec!["127.0.0.1".to_owned()];
    let offer = Arc::new(Offer { path: "/".to_owned(), protocol: "mqtt".to_owned(), hosts, texts: true });
    for stream in TcpListener::bind(address)?.incoming() {
        let (stream, offer) = (stream?, Arc::clone(&offer));
        std::thread::spawn(move || serve(stream, offer));
    }
    Ok(())
}

fn serve(mut stream: TcpStream, offer: Arc<Offer>) -> std::io::Result<()> {
    let mut socket = WebSocket::new(offer);
    let (mut buffer, mut message, mut out) = (vec![0; 65_536], Vec::new(), Vec::new());
    loop {
        let count = stream.read(&mut buffer)?;
        let mut rest = buffer.get(..count).unwrap_or_default();
        // In small steps, so that the end of each message is seen: the machine itself passes bytes through.
        while let Some(step) = rest.get(..1) {
            let before = socket.messages();
            socket.handle_input(step, |plain| {
                message.extend_from_slice(plain);
                plain.len()
            });
            rest = rest.get(1..).unwrap_or_default();
            while socket.poll_transmit(&mut out, |_| false) {}
            if socket.messages() != before {
                let (mut head, length) = header(message.len());
                if let ([first, ..], true) = (&mut head, socket.is_text()) {
                    *first = 0x81;
                }
                out.extend_from_slice(head.get(..length).unwrap_or_default());
                out.append(&mut message);
            }
            if out.len() > 1 << 20 || (rest.is_empty() && !out.is_empty()) {
                stream.write_all(&out)?;
                out.clear();
            }
        }
        if count == 0 || socket.is_closed() {
            return Ok(());
        }
    }
}
