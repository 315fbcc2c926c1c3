//! Taking up where another `Serving` was, for a journal's checkpoint.

use std::sync::Arc;

pub(crate) use super::health::Book;
use super::serve::Serving;
use super::view::Generation;
use crate::desired::Desired;

impl Serving {
    /// What is known of the health of backends.
    pub(crate) const fn book(&self) -> &Book {
        &self.book
    }

    /// Brings a `Serving` made anew to where another one was: `desired` is served with the health that `book` knows,
    /// and the newest view has this number.
    pub(crate) fn resume(&mut self, desired: &Desired, book: Book, generation: Generation) {
        *self = Self::bare(self.rules, self.weights, self.configured.clone(), book);
        drop(self.update(desired, &desired.everything()));
        let mut view = (*self.view).clone();
        view.generation = generation;
        self.view = Arc::new(view);
    }
}
