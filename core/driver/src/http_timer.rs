//! A runtime's timers, as the HTTP library wants them.

use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::time::Instant;

use hyper::rt::Sleep;

use crate::runtime::{Runtime, Timer};

/// The timers of the HTTP library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpTimer<R>(PhantomData<R>);

impl<R> HttpTimer<R> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<R: Runtime> hyper::rt::Timer for HttpTimer<R> {
    fn sleep(&self, wait: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Sleeping(R::Timer::after(wait)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Sleeping(R::Timer::at(deadline)))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleeping<R::Timer>>() {
            Some(sleeping) => sleeping.get_mut().0.set_at(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

struct Sleeping<T>(T);

impl<T: Timer> Future for Sleeping<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl<T: Timer> Sleep for Sleeping<T> {}
