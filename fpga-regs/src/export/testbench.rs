//! A test bench that reads the golden entries by the package's structs and
//! compares every field, and the two files that tell it what to expect.

use super::samples::Entry;
use super::sv::{member, type_name};
use super::text::{pieces, Piece, NOTICE};
use super::vectors::{placed, Placed};
use super::File;
use crate::catalog;
use crate::field::Format;
use std::fmt::Write;

const OPENING: &str = "
/* verilator lint_off WIDTH */
// +dir=DIRECTORY names where the hex files are; else they are read from here.
module verbena_vectors_tb;
  import verbena_pkg::*;

  string dir = \".\";
  string where;
  int compared = 0;
  int failed = 0;
  int next = 0;

  function automatic void compare(string field, logic [127:0] got, logic [127:0] want);
    compared++;
    if (got !== want) begin
      failed++;
      $display(\"%s: %s is %0h, not %0h\", where, field, got, want);
    end
  endfunction

";

/// Bits of the window through which a part is read: the largest format.
const WINDOW: usize = 2048;

/// The module, and the parts and fields that it expects.
pub fn files() -> Vec<File> {
    let all: Vec<Placed> = Entry::ALL.into_iter().flat_map(placed).collect();
    let (parts, fields) = expected(&all);
    let file = |name: &str, text: String| File { path: format!("vectors/{name}"), text };
    vec![
        file("verbena_vectors_tb.sv", module(count(&parts), count(&fields))),
        file("parts.hex", parts),
        file("fields.hex", fields),
    ]
}

/// Lines that are no comments.
fn count(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with("//")).count()
}

/// `parts.hex`: format, entry, word and byte, 16 bits each. `fields.hex`: the
/// fields of each part from bit 0 on.
fn expected(all: &[Placed]) -> (String, String) {
    let opening = |what: &str| format!("// {}\n// {what}\n", NOTICE[0]);
    let mut parts = opening("Number of the format, number of the file, word and byte: 16 bits each.");
    let mut fields = opening("The fields of these parts, one after the other, from bit 0 on.");
    let formats: Vec<&Format> = catalog::formats().collect();
    for Placed { sample, word } in all {
        let _ = writeln!(parts, "// {}", sample.name);
        for part in &sample.parts {
            let size = sample.entry.word();
            let (word, byte) = (word + part.byte / size, part.byte % size);
            assert!(byte + part.format.bytes <= WINDOW / 8, "a part does not fit the window");
            let number = formats.iter().position(|format| format.name == part.format.name);
            let number = number.expect("every format is in the catalog");
            let _ = writeln!(parts, "{number:04x}{:04x}{word:04x}{byte:04x}", sample.entry as usize);
            let _ = writeln!(fields, "// {} {}", sample.name, part.format.name);
            for piece in pieces(part.format) {
                if let Piece::Field(field) = piece {
                    let value = field.wide(&sample.bytes[part.byte..]).expect("a part is inside its sample");
                    let _ = writeln!(fields, "{value:x}");
                }
            }
        }
    }
    (parts, fields)
}

fn module(parts: usize, fields: usize) -> String {
    let mut text = format!("// {}\n// {}\n", NOTICE[0], NOTICE[1]);
    text.push_str(OPENING);
    for entry in Entry::ALL {
        let (name, bits) = (entry.name(), entry.word() * 8);
        let words: usize = placed(entry).iter().map(Placed::words).sum();
        let _ = writeln!(text, "  logic [{}:0] {name}_words [0:{}];", bits - 1, words - 1);
    }
    let _ = writeln!(text, "  logic [63:0] parts [0:{}];", parts - 1);
    let _ = writeln!(text, "  logic [127:0] fields [0:{}];\n", fields - 1);
    catalog::formats().for_each(|format| comparison(&mut text, format));
    window(&mut text);
    part(&mut text);
    text.push_str("  initial begin\n    void'($value$plusargs(\"dir=%s\", dir));\n");
    let memories = Entry::ALL.map(|entry| (entry.name(), format!("{}_words", entry.name())));
    for (file, memory) in memories.into_iter().chain(["parts", "fields"].map(|name| (name, name.to_string())))
    {
        let _ = writeln!(text, "    $readmemh({{dir, \"/{file}.hex\"}}, {memory});");
    }
    let _ = writeln!(text, "    for (int i = 0; i < {parts}; i++) compare_part(parts[i]);");
    let _ = writeln!(text, "    if (next != {fields}) $fatal(1, \"%0d fields were left\", {fields} - next);");
    text.push_str(
        "    if (failed != 0) $fatal(1, \"%0d of %0d fields differ\", failed, compared);\n    \
         $display(\"%0d fields agree\", compared);\n    $finish;\n  end\nendmodule\n",
    );
    text
}

/// The function that compares a struct with the next fields; what is reserved
/// is zero.
fn comparison(text: &mut String, format: &Format) {
    let kind = type_name(format);
    let _ = writeln!(text, "  function automatic void compare_{kind}({kind} got);");
    for piece in pieces(format) {
        let (name, want) = match piece {
            Piece::Field(field) => (member(field), "fields[next++]"),
            Piece::Reserved(bit, _) => (format!("reserved_{bit}"), "0"),
        };
        let _ = writeln!(text, "    compare(\"{}.{name}\", got.{name}, {want});", format.name);
    }
    text.push_str("  endfunction\n\n");
}

/// The function that gives the words of a file from one on.
fn window(text: &mut String) {
    let _ = writeln!(
        text,
        "  function automatic logic [{0}:0] window(int entry, int first);\n    window = '0;\n    case (entry)",
        WINDOW - 1
    );
    for entry in Entry::ALL {
        let (number, name, bits) = (entry as usize, entry.name(), entry.word() * 8);
        let _ = writeln!(
            text,
            "      {number}: for (int i = 0; i < {} && first + i < $size({name}_words); i++)\n        \
             window[i * {bits} +: {bits}] = {name}_words[first + i];",
            WINDOW / bits
        );
    }
    text.push_str(
        "      default: $fatal(1, \"there is no file %0d\", entry);\n    endcase\n  endfunction\n\n",
    );
}

/// The function that compares one part.
fn part(text: &mut String) {
    let _ = writeln!(
        text,
        "  function automatic void compare_part(logic [63:0] part);\n    \
         logic [{}:0] bits = window(part[47:32], part[31:16]) >> (part[15:0] * 8);\n    \
         where = $sformatf(\"file %0d, word %0d, byte %0d\", part[47:32], part[31:16], part[15:0]);\n    \
         case (part[63:48])",
        WINDOW - 1
    );
    for (number, format) in catalog::formats().enumerate() {
        let (kind, bits) = (type_name(format), format.bytes * 8);
        let _ = writeln!(text, "      {number}: compare_{kind}(bits[{}:0]);", bits - 1);
    }
    text.push_str(
        "      default: $fatal(1, \"there is no format %0d\", part[63:48]);\n    endcase\n  endfunction\n\n",
    );
}
