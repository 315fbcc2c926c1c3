//! Helpers of the end-to-end tests: running programs, sockets and a real redis-server.
