//! The rows of the matrix.
//!
//! | file | idea |
//! |---|---|
//! | [`verbs`] | programs that need verbs only |
//! | [`connections`] | programs that connect by address |
//! | [`libraries`] | UCX and MPI |
//! | [`scripts`] | what takes more than a server and a client |

mod connections;
mod libraries;
mod scripts;
mod verbs;

use super::row::Row;

pub fn rows() -> impl Iterator<Item = &'static Row> {
    [verbs::ROWS, connections::ROWS, libraries::ROWS].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_line_is_there_once() {
        let lines: BTreeSet<_> = rows().map(Row::line).collect();
        assert_eq!(lines.len(), rows().count());
    }
}
