//! Credentials from AWS's own SDK.

use aws_credential_types::provider::{ProvideCredentials, error::CredentialsError};
use turnstream_core::{Error, ErrorKind};

use super::{AwsCredentials, ProvideAwsCredentials};

/// Credentials that a provider of AWS's SDK finds: with the crate `aws-config`, all of the usual chain (profiles,
/// single sign-on, roles, the metadata of containers and machines).
///
/// ```text
/// let config = aws_config::load_defaults(aws_config::BehaviorVersion::latest()).await;
/// let provider = config.credentials_provider().expect("the default config has one");
/// let client = Client::new(wire).authorize(SigV4::new(AwsSdk::new(provider)));
/// ```
#[derive(Debug, Clone)]
pub struct AwsSdk<P>(P);

impl<P: ProvideCredentials + 'static> AwsSdk<P> {
    /// What this provider finds.
    pub fn new(provider: P) -> Self {
        Self(provider)
    }
}

impl<P: ProvideCredentials + 'static> ProvideAwsCredentials for AwsSdk<P> {
    async fn provide(&self) -> Result<AwsCredentials, Error> {
        let found = self.0.provide_credentials().await.map_err(refuse)?;
        let mut credentials = AwsCredentials::new(found.access_key_id(), found.secret_access_key());
        if let Some(token) = found.session_token() {
            credentials = credentials.session_token(token);
        }
        Ok(match found.expiry() {
            Some(end) => credentials.expires_at(end),
            None => credentials,
        })
    }
}

fn refuse(error: CredentialsError) -> Error {
    let (kind, words) = match &error {
        CredentialsError::CredentialsNotLoaded(_) => {
            (ErrorKind::Authentication, "no AWS credentials were found")
        }
        CredentialsError::InvalidConfiguration(_) => {
            (ErrorKind::Config, "the AWS configuration cannot be used")
        }
        // Whoever gives them out did not answer, or not well.
        _ => (ErrorKind::Connect, "the AWS credentials could not be fetched"),
    };
    Error::new(kind, words).with_source(error)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use aws_credential_types::{Credentials, provider::future};

    use super::*;

    #[derive(Debug)]
    struct Fails(fn() -> CredentialsError);

    impl ProvideCredentials for Fails {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::ready(Err((self.0)()))
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn what_the_sdk_finds_is_taken_whole() {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
        let theirs = Credentials::builder().access_key_id("a").secret_access_key("s").session_token("t");
        let theirs = theirs.expiry(end).provider_name("test").build();
        let ours = run(AwsSdk::new(theirs).provide()).unwrap();
        let signed = run(super::super::SigV4::new(ours.clone()).credentials(SystemTime::UNIX_EPOCH)).unwrap();
        assert_eq!((ours.access_key_id.as_str(), ours.expires_at), ("a", Some(end)));
        assert!(ours.session_token.is_some() && signed.access_key_id == "a");
    }

    #[test]
    fn what_may_pass_is_retried() {
        let table: [(fn() -> CredentialsError, ErrorKind); 3] = [
            (|| CredentialsError::not_loaded("none"), ErrorKind::Authentication),
            (|| CredentialsError::invalid_configuration("odd"), ErrorKind::Config),
            (|| CredentialsError::provider_error("down"), ErrorKind::Connect),
        ];
        for (error, kind) in table {
            assert_eq!(run(AwsSdk::new(Fails(error)).provide()).unwrap_err().kind(), kind);
        }
    }
}
