//! The staged product from outside: real processes, real sockets, the real model.
