//! Test: every accessor agrees with the field table, for any bytes.

use crate::field::Format;
use proptest::prelude::*;

/// `bytes` with every bit outside of field `index` cleared.
fn masked(format: &Format, index: usize, bytes: &[u8]) -> Vec<u8> {
    let field = &format.fields[index];
    let mut kept = vec![0; format.bytes];
    for bit in field.bit..field.bit + field.width {
        kept[bit / 8] |= bytes[bit / 8] & 1 << (bit % 8);
    }
    kept
}

fn check(format: &Format, alone: &[Vec<u8>], bytes: &[u8]) {
    for (index, alone) in alone.iter().enumerate() {
        let name = format.fields[index].name;
        let wanted = masked(format, index, bytes);
        assert_eq!(alone, &wanted, "{}.{name}", format.name);
    }
}

macro_rules! formats {
    ($bytes:ident: $($name:ident)+) => {
        $({
            let value = crate::$name::from_slice($bytes).unwrap();
            check(&crate::$name::FORMAT, &value.each_alone(), $bytes);
            assert_eq!(value.as_bytes(), &$bytes[..crate::$name::BYTES]);
        })+
    };
}

macro_rules! words {
    ($bytes:ident: $($int:ident $($name:ident)+;)+) => {
        $($({
            #[allow(unused_imports)]
            use crate::{doorbell::*, regs::*};
            let value = $name($int::from_le_bytes(*$bytes.first_chunk().unwrap()));
            check(&$name::FORMAT, &value.each_alone(), $bytes);
        })+)+
    };
}

fn check_all(bytes: &[u8]) {
    formats!(bytes: WqeCtrl WqeRemote WqeAtomic WqeAddress WqeSge WqeBind WqeTso RecvHead Cqe Eqe
        Command Reply QpContext CqContext SrqContext EqContext MrContext PageEntry MwContext
        PortContext FlowContext TableContext EthernetLimits LagContext CardLimits);
    words!(bytes:
        u32 Id Version Control Status Health Cause Function Link GidAttr GidVlan;
        u64 Features SqDoorbell RqDoorbell SrqDoorbell CqArm;);
}

proptest! {
    #[test]
    fn accessors_agree_with_the_table(bytes in proptest::collection::vec(any::<u8>(), 256)) {
        check_all(&bytes);
    }
}
