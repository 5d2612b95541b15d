//! A balancer: clients connect to one address, and are joined to the member that says it leads.

use anyhow::Result;
use serde_json::Value;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tieline_client::HttpClient;

/// How often each member is asked, and how long its answer may take.
const ASK_EVERY: Duration = Duration::from_millis(10);
const ANSWER_MAX: Duration = Duration::from_millis(300);

/// The balancer. Dropped, its connections end.
pub struct Balancer {
    address: String,
    members: Vec<Arc<Member>>,
    ends: Arc<AtomicBool>,
}

struct Member {
    http: String,
    mqtt: String,
    leads: AtomicBool,
    /// Both ends of its connections.
    open: Mutex<Vec<TcpStream>>,
}

impl Member {
    fn cut(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.drain(..).for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }

    /// Asks it again and again; connections to one that does not lead end.
    fn watch(&self, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            let http = HttpClient::patient(&self.http, ANSWER_MAX);
            let leads = http.get_with_status::<Value>("/healthz").is_ok_and(|(status, _)| status == 200);
            if self.leads.swap(leads, Ordering::Relaxed) && !leads {
                self.cut();
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    fn join(&self, client: TcpStream) -> io::Result<()> {
        let member = TcpStream::connect(&self.mqtt)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (from, to) in [(&client, &member), (&member, &client)] {
            from.set_nodelay(true)?;
            let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
            open.push(from.try_clone()?);
            std::thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }
}

impl Balancer {
    /// Listens, for members whose HTTP and MQTT are at these addresses.
    pub fn start(members: Vec<(String, String)>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let member = |(http, mqtt)| Arc::new(Member { http, mqtt, leads: false.into(), open: Mutex::default() });
        let (members, ends): (Vec<_>, Arc<AtomicBool>) = (members.into_iter().map(member).collect(), Arc::default());
        for member in &members {
            let (member, ends) = (Arc::clone(member), Arc::clone(&ends));
            std::thread::spawn(move || member.watch(&ends));
        }
        let (shared, over) = (members.clone(), Arc::clone(&ends));
        std::thread::spawn(move || {
            for client in listener.incoming().take_while(|_| !over.load(Ordering::Relaxed)).flatten() {
                // A client that finds no leader is turned away, and comes again.
                let leader = shared.iter().find(|member| member.leads.load(Ordering::Relaxed));
                let _ = leader.map(|leader| leader.join(client));
            }
        });
        Ok(Self { address, members, ends })
    }

    /// Where clients connect.
    pub fn address(&self) -> String {
        self.address.clone()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.members.iter().for_each(|member| member.cut());
        // The listener looks once more.
        let _ = TcpStream::connect(&self.address);
    }
}
