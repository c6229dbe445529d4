//! Errors: typed, scoped, with hints for a retry. Constructors keep the rule of their category.

use crate::json::Json;
use crate::json_form::{json_enum, json_struct};

json_enum! {
    pub enum ErrorCategory {
        Config = "config",
        Auth = "auth",
        Permission = "permission",
        RateLimit = "rate_limit",
        TransientNetwork = "transient_network",
        TransientDb = "transient_db",
        Data = "data",
        Schema = "schema",
        Internal = "internal",
    }
}

json_enum! {
    pub enum ErrorScope {
        Stream = "stream",
        Batch = "batch",
        Record = "record",
    }
}

json_enum! {
    pub enum BackoffClass {
        Fast = "fast",
        Normal = "normal",
        Slow = "slow",
    }
}

json_enum! {
    pub enum CommitState {
        BeforeCommit = "before_commit",
        AfterCommitUnknown = "after_commit_unknown",
        AfterCommitConfirmed = "after_commit_confirmed",
    }
}

json_struct! {
    pub struct ConnectorError {
        pub category: ErrorCategory,
        pub scope: ErrorScope,
        pub code: String,
        pub message: String,
        /// Free for `data` and `schema`. The host corrects what other categories do not allow.
        pub retryable: bool,
        pub retry_after_ms: Option<u64>,
        pub backoff_class: BackoffClass = BackoffClass::Normal,
        pub safe_to_retry: bool = false,
        pub commit_state: Option<CommitState>,
        pub details: Option<Json>,
    }
}

pub type Result<T> = std::result::Result<T, ConnectorError>;

impl ConnectorError {
    fn new(category: ErrorCategory, code: &str, message: impl Into<String>) -> Self {
        use ErrorCategory::*;
        let retryable = matches!(category, RateLimit | TransientNetwork | TransientDb);
        ConnectorError {
            category,
            scope: if category == Data { ErrorScope::Record } else { ErrorScope::Stream },
            code: code.to_string(),
            message: message.into(),
            retryable,
            retry_after_ms: None,
            backoff_class: if category == RateLimit { BackoffClass::Slow } else { BackoffClass::Normal },
            safe_to_retry: retryable,
            commit_state: None,
            details: None,
        }
    }

    /// The config is wrong; a retry does not help.
    pub fn config(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Config, code, message)
    }

    /// The credentials are refused; a retry does not help until they change.
    pub fn auth(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Auth, code, message)
    }

    /// The credentials are accepted, but do not allow what was tried.
    pub fn permission(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Permission, code, message)
    }

    /// The peer asks to come back later.
    pub fn rate_limit(code: &str, message: impl Into<String>, retry_after_ms: Option<u64>) -> Self {
        ConnectorError { retry_after_ms, ..Self::new(ErrorCategory::RateLimit, code, message) }
    }

    /// The connection failed.
    pub fn transient_network(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::TransientNetwork, code, message)
    }

    /// The database failed for now: a restart, a deadlock, too many connections.
    pub fn transient_db(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::TransientDb, code, message)
    }

    /// A record can't be read or written; `on_data_error` decides.
    pub fn data(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Data, code, message)
    }

    /// The schemas do not fit; `schema_evolution` decides.
    pub fn schema(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Schema, code, message)
    }

    /// A bug, or a state that should not exist.
    pub fn internal(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Internal, code, message)
    }

    /// The error with how far a commit got; a commit of unknown outcome is not safe to retry.
    pub fn with_commit_state(self, state: CommitState) -> Self {
        let safe_to_retry = self.safe_to_retry && state != CommitState::AfterCommitUnknown;
        ConnectorError { commit_state: Some(state), safe_to_retry, ..self }
    }
}
