//! The transport against real sockets. Replies come whole from wiremock, or in pieces from a server that
//! follows a script; nothing waits for the clock to tell a result.

mod connections;
mod replies;
mod requests;
mod retries;
mod support;
mod timeouts;
