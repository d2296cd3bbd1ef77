//! Stub while it is being written.
