//! One seeded, deterministic world: the development coordinator, a lossy bus, real workers of one authority, clients at
//! the real gate, and one clock that jumps to the next thing (worker-protocol 3.3, last paragraph).
//!
//! A run has a phase of faults and then a healing one: the faults end, the stated bound passes, and every node must
//! serve what a fresh worker would, given the coordinator's state. Rules are held against every single step: see
//! [`mod@reference`] (what a node must want), [`promises`] (acks), [`conduct`] (calls) and [`clients`] (requests).
//!
//! No clock, no thread and no randomness but the seed's: the same seed always gives the same run.

pub mod aims;
pub mod broken;
pub mod callers;
pub mod carriers;
pub mod changes;
pub mod chaos;
pub mod clients;
pub mod conduct;
pub mod fault;
pub mod healing;
pub mod node;
pub mod promises;
pub mod reference;
pub mod run;
pub mod seeds;
pub mod shell;
pub mod state;
pub mod totals;
pub mod wildcard;
pub mod world;
