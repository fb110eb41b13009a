//! Checks of the card's definition: what each format looks like decoded, that
//! encoding and decoding agree, and that the generated pages are fresh.

mod admin;
mod exports;
mod flip;
mod hex;
mod pages;
mod queue;
mod random;
mod recv;
mod registers;
mod wqe;
