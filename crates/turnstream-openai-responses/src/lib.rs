//! Stub while the wire is being written.
