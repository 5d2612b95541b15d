//! HTTP clients on the MQTT port: they are told where to go, in their own protocol.

use std::net::SocketAddr;

/// What the MQTT server answers to HTTP (RFC 9110 section 15.5.20).
pub fn http_answer(http: SocketAddr, has_tls: bool) -> Box<[u8]> {
    let scheme = if has_tls { "https" } else { "http" };
    let detail = format!("this is the MQTT address of a Tieline node; its HTTP address is {scheme}://{http}/");
    let body = serde_json::json!({ "title": "Misdirected Request", "status": 421, "detail": detail }).to_string();
    let head = "HTTP/1.1 421 Misdirected Request\r\ncontent-type: application/problem+json\r\nconnection: close";
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1883);

    #[test]
    fn http_is_told_where_it_is_spoken() {
        let text = String::from_utf8(http_answer(AT, true).into()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 421 ") && head.ends_with(&format!("content-length: {}", body.len())),
            "{head}"
        );
        assert!(body.contains("its HTTP address is https://127.0.0.1:1883/"), "{body}");
    }
}
