//! The C header.

use super::c_layout::{members, Member};
use super::text::{about, line, meaning, snake, upper, NOTICE};
use crate::catalog::{self, Block};
use crate::field::{Format, Names};
use std::fmt::Write;

const OPENING: &str = "\
#ifndef VERBENA_H
#define VERBENA_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error \"the structs below are for little-endian machines\"
#endif

#ifdef __cplusplus
#define VERBENA_ASSERT(what) static_assert(what, #what)
#else
#define VERBENA_ASSERT(what) _Static_assert(what, #what)
#endif

/* The field FIELD of a number: VERBENA_GET(cqe.flags, VERBENA_CQE_GRH). */
#define VERBENA_GET(number, FIELD) (((number) & FIELD##_MASK) >> FIELD##_SHIFT)
/* The number with the field FIELD set to a value, which gets the type of the mask before it is shifted. */
#define VERBENA_SET(number, FIELD, value) \\
    (((number) & ~FIELD##_MASK) | ((((FIELD##_MASK & 0) | (value)) << FIELD##_SHIFT) & FIELD##_MASK))
";

/// `verbena.h`.
pub fn header() -> String {
    let mut text = format!("/*\n * {}\n * {}\n */\n", NOTICE[0], NOTICE[1]);
    text.push_str(OPENING);
    title(&mut text, "Constants");
    for constant in catalog::constants() {
        define(&mut text, constant.name, &number(constant.value, 4), constant.doc);
    }
    for block in catalog::BLOCKS {
        registers(&mut text, &block);
    }
    title(&mut text, "Fields of registers and doorbells");
    for word in catalog::words() {
        let _ = writeln!(text, "/* {}: {} */", word.name, line(word.doc));
        for field in word.fields {
            masks(&mut text, word.name, field.name, field.bit, field.width, word.bytes);
        }
        text.push('\n');
    }
    title(&mut text, "Values");
    for (names, set) in catalog::names() {
        values(&mut text, names, set);
    }
    title(&mut text, "Queue entries, commands and contexts in memory");
    for format in catalog::formats() {
        structure(&mut text, format);
    }
    text.push_str("#endif\n");
    text
}

fn title(text: &mut String, title: &str) {
    let _ = writeln!(text, "\n/* ---- {title} ---- */\n");
}

fn define(text: &mut String, name: &str, value: &str, doc: &str) {
    let _ = writeln!(text, "/* {} */\n#define VERBENA_{name} {value}", line(doc));
}

/// The unsigned type of `bytes` bytes.
fn number(value: u64, bytes: usize) -> String {
    let kind = if bytes == 8 { 64 } else { 32 };
    format!("UINT{kind}_C({value:#x})")
}

/// Offsets, and the place of the block.
fn registers(text: &mut String, block: &Block) {
    let name = block.name.to_uppercase();
    title(text, &format!("Registers: {}", block.name));
    if block.count > 1 {
        let (base, stride) = (number(block.base.into(), 4), number(block.stride.into(), 4));
        let doc = match block.name {
            "gid" => "Offset of an entry in its port's block",
            "port" => "Offset in BAR0 of port n + 1",
            _ => "Offset in BAR0, counted from 0",
        };
        let _ = writeln!(text, "/* {doc}; there are {}. */", block.count);
        let _ = writeln!(text, "#define VERBENA_{name}(n) ({base} + (n) * {stride})\n");
    }
    for register in block.registers {
        let doc = about(register);
        define(text, &format!("{name}_REG_{}", register.name), &number(register.offset.into(), 4), &doc);
        if let Some(reset) = register.reset {
            let value = number(reset, register.bytes as usize);
            let _ = writeln!(text, "#define VERBENA_{name}_REG_{}_RESET {value}", register.name);
        }
    }
}

/// Mask and shift of a field in a number of `bytes` bytes.
fn masks(text: &mut String, owner: &str, field: &str, bit: usize, width: usize, bytes: usize) {
    let name = format!("VERBENA_{}_{}", upper(owner), field.to_uppercase());
    let mask = number(u64::MAX >> (64 - width) << bit, bytes);
    let _ = writeln!(text, "#define {name}_MASK {mask}\n#define {name}_SHIFT {bit}");
}

/// An enum, or the bits of a set.
fn values(text: &mut String, names: &Names, set: bool) {
    let owner = upper(names.name);
    let _ = writeln!(text, "/* {} */", line(names.doc));
    if set {
        for known in names.values {
            // All of a set have one type: the complement of one has every other bit.
            let value = number(known.value, names.bits / 8);
            define(text, &format!("{owner}_{}", known.name), &value, known.doc);
        }
        text.push('\n');
        return;
    }
    let _ = writeln!(text, "enum verbena_{} {{", snake(names.name));
    for known in names.values {
        let _ = writeln!(
            text,
            "    VERBENA_{owner}_{} = {:#x}, /* {} */",
            known.name,
            known.value,
            line(known.doc)
        );
    }
    text.push_str("};\n\n");
}

/// A struct, its masks, and the assertions that it is as declared.
fn structure(text: &mut String, format: &Format) {
    let name = snake(format.name);
    let members = members(format);
    let _ = writeln!(text, "/* {} */\nstruct verbena_{name} {{", line(format.doc));
    for member in &members {
        let comments: Vec<String> = match member.is_plain() || member.array {
            true => member.fields.iter().map(|field| meaning(field)).collect(),
            false => {
                member.fields.iter().map(|field| format!("{}: {}", field.name, meaning(field))).collect()
            }
        };
        for comment in comments {
            let _ = writeln!(text, "    /* {comment} */");
        }
        let _ = writeln!(text, "    {};", declaration(member));
    }
    text.push_str("};\n");
    for member in members.iter().filter(|member| !member.array && !member.is_plain()) {
        for field in &member.fields {
            let bit = field.bit - member.byte * 8;
            masks(text, format.name, field.name, bit, field.width, member.bytes);
        }
    }
    let _ = writeln!(text, "VERBENA_ASSERT(sizeof(struct verbena_{name}) == {});", format.bytes);
    for member in members.iter().filter(|member| !member.fields.is_empty()) {
        let (member, byte) = (&member.name, member.byte);
        let _ = writeln!(text, "VERBENA_ASSERT(offsetof(struct verbena_{name}, {member}) == {byte});");
    }
    text.push('\n');
}

fn declaration(member: &Member) -> String {
    match member.array {
        true => format!("uint8_t {}[{}]", member.name, member.bytes),
        false => format!("uint{}_t {}", member.bytes * 8, member.name),
    }
}
