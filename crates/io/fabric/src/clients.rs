//! The clients of all servers, as the system account sees them: who is connected, and who has to go.

use crate::{Fabric, FabricError};
use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// Connections of one answer.
const PAGE: usize = 256;
/// Pages of one server at most; what is beyond is found in the next round, after those before it have gone.
const PAGES_MAX: usize = 256;
/// Servers that have not answered within this time after the one before are away.
const SILENCE: Duration = Duration::from_millis(300);

/// A connection of a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connected {
    /// The public key of the server.
    pub server: String,
    /// Its number there.
    pub id: u64,
    /// Who it is: the name of [`crate::Grant`].
    pub name: String,
}

#[derive(Deserialize)]
struct Answer {
    server: Server,
    data: Page,
}

#[derive(Deserialize)]
struct Server {
    id: String,
}

#[derive(Deserialize)]
struct Page {
    total: usize,
    #[serde(default)]
    connections: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    cid: u64,
    #[serde(default)]
    authorized_user: String,
}

impl Fabric {
    /// All clients of an account, at all servers that answer. The connection must be one of the system account.
    ///
    /// # Errors
    /// No server answers.
    pub async fn clients(&self, account: &str) -> Result<BTreeSet<Connected>, FabricError> {
        let mut found = BTreeSet::new();
        for page in 0..PAGES_MAX {
            if !page_of(&self.client, account, page * PAGE, self.server_timeout, &mut found).await? {
                break;
            }
        }
        Ok(found)
    }

    /// Ends a connection of a client. The client may connect again, if it is let in.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn disconnect(&self, client: &Connected) -> Result<(), FabricError> {
        let body = json!({ "cid": client.id }).to_string();
        let subject = format!("$SYS.REQ.SERVER.{}.KICK", client.server);
        self.call(&subject, body.into(), self.server_timeout).await.map(drop)
    }
}

/// Asks all servers for a page; says whether one has more.
async fn page_of(
    client: &Client,
    account: &str,
    offset: usize,
    wait: Duration,
    found: &mut BTreeSet<Connected>,
) -> Result<bool, FabricError> {
    let away = |error: &dyn std::fmt::Display| FabricError::Away(error.to_string());
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.map_err(|error| away(&error))?;
    let body = json!({ "auth": true, "acc": account, "offset": offset, "limit": PAGE }).to_string();
    let asked = client.publish_with_reply("$SYS.REQ.SERVER.PING.CONNZ", inbox, Bytes::from(body)).await;
    asked.map_err(|error| away(&error))?;
    let (mut has_more, mut wait, mut count) = (false, wait, 0);
    while let Ok(Some(message)) = timeout(wait, answers.next()).await {
        // Nobody listens: this is not the system account.
        let Ok(Answer { server, data }) = serde_json::from_slice(&message.payload) else { break };
        (wait, count) = (SILENCE, count + 1);
        has_more |= data.total > offset + data.connections.len();
        let row = |row: Row| Connected { server: server.id.clone(), id: row.cid, name: row.authorized_user };
        found.extend(data.connections.into_iter().map(row));
    }
    if count == 0 { Err(FabricError::Away("no server says who is connected".into())) } else { Ok(has_more) }
}
