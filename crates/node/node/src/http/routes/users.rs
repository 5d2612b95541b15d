//! Routes of users and roles.

use super::super::authorization::Protected;
use super::super::{roles, users};
use tieline_service::http::openapi::Operation as Op;
use tieline_service::http::routes::Routes;

const NO_FILE: &str = "The node has no file of users";
const NO_USER: &str = "There is no such user";
const LOCKOUT: &str =
    "The node has no file of users; or the caller, or everybody, would lose the right to administer users";

/// Adds the routes of users and roles.
pub(super) fn add(routes: Routes<Protected>) -> Routes<Protected> {
    of_changes(of_lists(routes))
}

fn of_lists(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/v1/access/users",
            users::list,
            Op::new("users", "List the users of the file, sorted by name")
                .about("Needs read on $access/users. Passwords and their hashes are never sent.")
                .problem(409, NO_FILE),
        )
        .get(
            "/v1/access/roles",
            roles::list,
            Op::new("roles", "List roles with their rules")
                .about("Needs read on $access/roles.")
                .problem(409, "The node has no users"),
        )
        .get(
            "/v1/access/why",
            roles::why,
            Op::new("why", "Get whether a user has a right on a topic or a filter, and which rules decide")
                .about("Needs read on $access/users.")
                .problem(404, NO_USER)
                .problem(409, "The node has no users"),
        )
}

fn of_changes(routes: Routes<Protected>) -> Routes<Protected> {
    let max = users::USER_BYTES_MAX;
    routes
        .post_at_most(
            max,
            "/v1/access/users",
            users::add,
            Op::new("addUser", "Add a user to the file. The answer is sent when the change holds")
                .about(CHANGE)
                .problem(409, "The node has no file of users, or the user is there already")
                .problem(422, "A name, a role or the password is not accepted; or a member is missing, unknown or of the wrong type"),
        )
        .post_at_most(
            max,
            "/v1/access/users/roles",
            users::roles,
            changes("setUserRoles", "Give a user other roles. The answer is sent when the change holds"),
        )
        .post_at_most(
            max,
            "/v1/access/users/password",
            users::password,
            changes("setUserPassword", "Give a user another password. Its MQTT sessions and logins end"),
        )
        .post_at_most(
            max,
            "/v1/access/users/disable",
            users::disable,
            changes("disableUser", "Disable a user. Its MQTT sessions and logins end"),
        )
        .post_at_most(max, "/v1/access/users/enable", users::enable, changes("enableUser", "Enable a user again"))
        .post_at_most(
            max,
            "/v1/access/users/remove",
            users::remove,
            changes("removeUser", "Remove a user from the file. Its MQTT sessions and logins end"),
        )
}

fn changes(id: &'static str, words: &'static str) -> Op {
    Op::new(id, words)
        .about(CHANGE)
        .problem(404, NO_USER)
        .problem(409, LOCKOUT)
        .problem(422, "A role or the password is not accepted; or a member is missing, unknown or of the wrong type")
}

const CHANGE: &str =
    "Needs admin on $access/users. The file is changed as by tieline access user. The audit log gets a record.";
