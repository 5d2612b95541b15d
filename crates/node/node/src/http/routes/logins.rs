//! Routes by which people and command lines log in and out.

use super::super::authorization::Protected;
use super::super::{access, held_logins, identity, login};
use tieline_service::http::openapi::Operation as Op;
use tieline_service::http::routes::Routes;

const NO_PROVIDER: &str = "The node has no identity provider";

/// Adds logins of local users, and by an identity provider.
pub(super) fn add(routes: Routes<Protected>) -> Routes<Protected> {
    of_identity(of_login(routes))
}

fn of_login(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/v1/me",
            access::me,
            Op::new("me", "Get the user of this request, with roles and rights")
                .says(200, "The user; null if no users are configured"),
        )
        .get("/login", login::login_page, Op::new("loginPage", "Get the login page").page(200, "The page"))
        .post_at_most(
            login::FORM_BYTES_MAX,
            "/login",
            login::login,
            Op::new("login", "Log in with a form. The answer sets a cookie")
                .says(303, "Logged in")
                .page(401, "The login page: the user or the password is wrong, or cannot be checked now")
                .page(403, "The login page: the user has no role, or the request comes from a foreign page"),
        )
        .post("/logout", login::logout, Op::new("logout", "Log out").says(200, "Logged out").says(303, "Logged out"))
}

/// Of logins by an identity provider.
fn of_identity(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/login/provider",
            identity::browser::begin,
            Op::new("beginLogin", "Log in at the identity provider").says(303, "The address of the provider"),
        )
        .get(
            "/login/callback",
            identity::browser::callback,
            Op::new("endLogin", "Come back from the identity provider. The answer sets a cookie")
                .says(303, "Logged in")
                .page(400, "The login was not begun by this browser, was used before, or is over")
                .page(401, "The ID token is not valid")
                .page(403, "The provider refuses, or no group of the person has a role")
                .page(502, "The answer of the provider cannot be used")
                .page(503, "The provider does not answer"),
        )
        .post_at_most(
            identity::browser::LOGOUT_BYTES_MAX,
            "/login/provider-logout",
            identity::browser::provider_logout,
            Op::new("providerLogout", "End the logins of a session that the identity provider has ended")
                .says(200, "Ended")
                .problem(400, "The logout token is not valid")
                .problem(404, "The node has no identity provider"),
        )
        .post_at_most(
            identity::device::DEVICE_BYTES_MAX,
            "/v1/logins/end",
            held_logins::end,
            Op::new("endLogins", "End the logins of a user at the console and of the command line")
                .about("Needs admin on $access/logins. The audit log gets a record. MQTT sessions go on."),
        )
        .get(
            "/v1/logins",
            held_logins::list,
            Op::new("logins", "List logins at the console and of the command line")
                .about("Needs read on $access/logins."),
        )
        .post(
            "/v1/logins/end-others",
            held_logins::end_others,
            Op::new("endOtherLogins", "End the logins of the caller, except the one that this request uses")
                .about("The audit log gets a record. MQTT sessions go on.")
                .problem(409, "The request uses no login"),
        )
        .post_at_most(
            identity::device::DEVICE_BYTES_MAX,
            "/v1/login/device",
            identity::device::begin,
            Op::new("beginDeviceLogin", "Begin a login that a person confirms at the identity provider (RFC 8628)")
                .problem(409, NO_PROVIDER)
                .problem(429, "Too many logins wait to be confirmed")
                .problem(502, "The answer of the provider cannot be used"),
        )
        .post_at_most(
            identity::device::DEVICE_BYTES_MAX,
            "/v1/login/device/token",
            identity::device::token,
            Op::new("deviceToken", "Get the token of a login, once the person has confirmed it")
                .problem(
                    403,
                    "The person or the provider refuses, or no group of the person has a role; or a foreign page asked",
                )
                .problem(404, "The login is over, or was never begun")
                .problem(409, NO_PROVIDER)
                .problem(502, "The answer of the provider cannot be used"),
        )
}
