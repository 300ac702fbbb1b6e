//! Rules of nftables as the kernel lists them, and iptables' where nftables has them.

use std::{collections::BTreeMap, ops::RangeInclusive};

use super::matching::{Comparison, Condition, Field, Match, Place};
use crate::host::nfnetlink::{attributes, text_of, value_of};

/// `NFTA_RULE_EXPRESSIONS`, `NFTA_EXPR_NAME`, `NFTA_EXPR_DATA` and `NFTA_DATA_VALUE` of linux/netfilter/nf_tables.h.
const EXPRESSIONS: u16 = 4;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const VALUE: u16 = 1;

/// `NF_DROP`.
const DROP: u32 = 0;

/// A rule, as far as it is read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    /// The chain that it jumps or goes to.
    pub(super) jump: Option<String>,
    /// Its conditions, if it drops or rejects.
    pub(super) filter: Option<Match>,
}

impl Rule {
    /// Reads the attributes of a rule.
    pub(super) fn read(message: &[u8]) -> Self {
        let mut reader = Reader::default();
        for (_, expression) in attributes(value_of(message, EXPRESSIONS).unwrap_or_default()) {
            if let Some(name) = text_of(expression, EXPRESSION_NAME) {
                let data = value_of(expression, EXPRESSION_DATA).unwrap_or_default();
                reader.take(&name, data);
            }
        }
        let Reader {
            registers: _,
            conditions,
            jump,
            ends,
        } = reader;
        Self {
            jump,
            filter: ends.then_some(Match(conditions)),
        }
    }
}

/// A rule that is read, expression by expression.
#[derive(Debug, Default)]
struct Reader {
    /// Fields that expressions have put into registers.
    registers: BTreeMap<u32, Field>,
    conditions: Vec<Condition>,
    jump: Option<String>,
    ends: bool,
}

impl Reader {
    /// Takes an expression. One that is not known here is a condition that any packet may meet.
    fn take(&mut self, name: &str, data: &[u8]) {
        match name {
            "payload" => self.load(data, 1, field_of_payload(data)),
            "meta" => self.load(data, 1, field_of_meta(data)),
            "bitwise" => self.load(data, 2, self.masked(data)),
            "cmp" => self.conditions.extend(self.compared(data)),
            "range" => {
                let range = self.range(data).into_iter().flatten();
                self.conditions.extend(range);
            }
            "immediate" => self.decide(data),
            "match" => self.conditions.extend(of_iptables(data)),
            "reject" => self.ends = true,
            _ => {}
        }
    }

    /// Puts a field into the register that this attribute names; what cannot be read is none.
    fn load(&mut self, data: &[u8], register: u16, field: Option<Field>) {
        if let Some(register) = number(data, register) {
            match field {
                Some(field) => self.registers.insert(register, field),
                None => self.registers.remove(&register),
            };
        }
    }

    /// Reads `NFTA_BITWISE_SREG`, `_MASK`, `_XOR` and `_OP` (other than 0 are shifts, and operations with a register).
    fn masked(&self, data: &[u8]) -> Option<Field> {
        let mut field = self.registers.get(&number(data, 1)?)?.clone();
        let mask = value_of(value_of(data, 4)?, VALUE)?;
        let exclusive_or = value_of(value_of(data, 5)?, VALUE)?;
        if exclusive_or.iter().any(|byte| *byte != 0) || number(data, 6).unwrap_or(0) != 0 {
            return None;
        }
        for (at, byte) in field.mask.iter_mut().zip(mask) {
            *at &= byte;
        }
        Some(field)
    }

    /// Reads `NFTA_CMP_SREG`, `_OP` and `_DATA`.
    fn compared(&self, data: &[u8]) -> Option<Condition> {
        let field = self.registers.get(&number(data, 1)?)?;
        let comparison = match number(data, 2)? {
            0 => Comparison::Equal,
            1 => Comparison::NotEqual,
            2 => Comparison::Below,
            3 => Comparison::AtMost,
            4 => Comparison::Above,
            5 => Comparison::AtLeast,
            _ => return None,
        };
        let value = value_of(value_of(data, 3)?, VALUE)?;
        Some(Condition::Compare(
            field.clone(),
            comparison,
            value.to_vec(),
        ))
    }

    /// Reads `NFTA_RANGE_SREG`, `_OP` (0 is inside), `_FROM_DATA` and `_TO_DATA`.
    fn range(&self, data: &[u8]) -> Option<[Condition; 2]> {
        let field = self.registers.get(&number(data, 1)?)?;
        if number(data, 2)? != 0 {
            return None;
        }
        let value = |kind| Some(value_of(value_of(data, kind)?, VALUE)?.to_vec());
        Some([
            Condition::Compare(field.clone(), Comparison::AtLeast, value(3)?),
            Condition::Compare(field.clone(), Comparison::AtMost, value(4)?),
        ])
    }

    /// Reads the verdict of `NFTA_IMMEDIATE_DATA`: `NFTA_VERDICT_CODE` and `NFTA_VERDICT_CHAIN` of `NFTA_DATA_VERDICT`.
    fn decide(&mut self, data: &[u8]) {
        let Some(verdict) = value_of(data, 2).and_then(|data| value_of(data, 2)) else {
            return;
        };
        self.ends |= number(verdict, 1) == Some(DROP);
        self.jump = text_of(verdict, 2).or_else(|| self.jump.take());
    }
}

/// The number in an attribute.
fn number(data: &[u8], kind: u16) -> Option<u32> {
    let bytes = value_of(data, kind)?.first_chunk().copied()?;
    Some(u32::from_be_bytes(bytes))
}

/// Reads `NFTA_PAYLOAD_BASE`, `_OFFSET` and `_LEN`.
fn field_of_payload(data: &[u8]) -> Option<Field> {
    let place = match number(data, 2)? {
        1 => Place::Network,
        2 => Place::Transport,
        _ => return None,
    };
    let length = usize::try_from(number(data, 4)?).ok()?;
    // Registers have 64 bytes in all.
    (length <= 64).then_some(Field {
        place,
        offset: usize::try_from(number(data, 3)?).ok()?,
        mask: vec![0xff; length],
    })
}

/// Reads `NFTA_META_KEY`: `NFT_META_NFPROTO` and `NFT_META_L4PROTO`.
fn field_of_meta(data: &[u8]) -> Option<Field> {
    let place = match number(data, 2)? {
        15 => Place::Family,
        16 => Place::Protocol,
        _ => return None,
    };
    Some(Field {
        place,
        offset: 0,
        mask: vec![0xff],
    })
}

/// Reads a match of iptables, `NFTA_MATCH_NAME`, `_REV` and `_INFO`: ports of `tcp`, `udp` and `multiport`.
fn of_iptables(data: &[u8]) -> Option<Condition> {
    let info = value_of(data, 3)?;
    // `struct xt_tcp` and `struct xt_udp`: source ports, destination ports; flags of which bit 1 negates the latter.
    let destination = |flags: usize| {
        let range = port_at(info, 4)?..=port_at(info, 6)?;
        let is_any = range == (0..=u16::MAX);
        (!is_any).then_some((vec![range], *info.get(flags)? & 2 != 0))
    };
    let (ranges, is_negated) = match (&*text_of(data, 1)?, number(data, 2)?) {
        ("tcp", _) => destination(11)?,
        ("udp", _) => destination(8)?,
        ("multiport", 1) => multiport(info)?,
        _ => return None,
    };
    Some(if is_negated {
        Condition::OtherPorts(ranges)
    } else {
        Condition::Ports(ranges)
    })
}

/// Reads `struct xt_multiport_v1`, if it is about destination ports. A port with a mark is the first of a range. With
/// either port (2), the destination's is enough.
fn multiport(info: &[u8]) -> Option<(Vec<RangeInclusive<u16>>, bool)> {
    let [about, count, ..] = *info else {
        return None;
    };
    if about == 0 {
        return None;
    }
    let mut ranges = Vec::new();
    let mut index = 0;
    while index < usize::from(count).min(15) {
        let first = port_at(info, 2 + 2 * index)?;
        index += usize::from(*info.get(32 + index)? != 0);
        ranges.push(first..=port_at(info, 2 + 2 * index)?);
        index += 1;
    }
    Some((ranges, *info.get(47)? != 0))
}

/// The port that iptables has at this place, in host order.
fn port_at(info: &[u8], offset: usize) -> Option<u16> {
    let bytes = info.get(offset..)?.first_chunk().copied()?;
    Some(u16::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::nfnetlink::{attribute, text};

    fn numbers(list: &[(u16, u32)]) -> Vec<u8> {
        let list = list.iter();
        list.flat_map(|(kind, number)| attribute(*kind, &number.to_be_bytes()))
            .collect()
    }

    fn value(kind: u16, bytes: &[u8]) -> Vec<u8> {
        attribute(kind, &attribute(VALUE, bytes))
    }

    fn verdict(code: i32, chain: Option<&str>) -> (&'static str, Vec<u8>) {
        let chain = chain.map(|name| text(2, name)).unwrap_or_default();
        let verdict = [attribute(1, &code.to_be_bytes()), chain].concat();
        let data = attribute(2, &attribute(2, &verdict));
        ("immediate", [numbers(&[(1, 0)]), data].concat())
    }

    fn load(base: u32, offset: u32, length: u32) -> (&'static str, Vec<u8>) {
        (
            "payload",
            numbers(&[(1, 1), (2, base), (3, offset), (4, length)]),
        )
    }

    fn compare(operation: u32, bytes: &[u8]) -> (&'static str, Vec<u8>) {
        (
            "cmp",
            [numbers(&[(1, 1), (2, operation)]), value(3, bytes)].concat(),
        )
    }

    fn rule(expressions: &[(&str, Vec<u8>)]) -> Rule {
        let expressions = expressions.iter().flat_map(|(name, data)| {
            let expression = [
                text(EXPRESSION_NAME, name),
                attribute(EXPRESSION_DATA, data),
            ];
            attribute(1, &expression.concat())
        });
        Rule::read(&attribute(EXPRESSIONS, &expressions.collect::<Vec<_>>()))
    }

    fn field(place: Place, offset: usize, mask: &[u8]) -> Field {
        Field {
            place,
            offset,
            mask: mask.to_vec(),
        }
    }

    #[test]
    fn a_drop_has_its_conditions() {
        let found = rule(&[
            ("meta", numbers(&[(1, 1), (2, 16)])),
            compare(0, &[6]),
            load(1, 16, 4),
            (
                "bitwise",
                [
                    numbers(&[(1, 1), (2, 1), (3, 4)]),
                    value(4, &[255, 255, 255, 0]),
                    value(5, &[0; 4]),
                ]
                .concat(),
            ),
            compare(0, &[203, 0, 113, 0]),
            load(2, 2, 2),
            (
                "range",
                [
                    numbers(&[(1, 1), (2, 0)]),
                    value(3, &[0, 80]),
                    value(4, &[0, 90]),
                ]
                .concat(),
            ),
            ("counter", Vec::new()),
            verdict(0, None),
        ]);
        let port = || field(Place::Transport, 2, &[255, 255]);
        let expected = vec![
            Condition::Compare(
                field(Place::Protocol, 0, &[255]),
                Comparison::Equal,
                vec![6],
            ),
            Condition::Compare(
                field(Place::Network, 16, &[255, 255, 255, 0]),
                Comparison::Equal,
                vec![203, 0, 113, 0],
            ),
            Condition::Compare(port(), Comparison::AtLeast, vec![0, 80]),
            Condition::Compare(port(), Comparison::AtMost, vec![0, 90]),
        ];
        assert_eq!(found.filter, Some(Match(expected)));
        assert_eq!(found.jump, None);
    }

    #[test]
    fn only_drop_and_reject_end_a_packet_and_jumps_are_followed() {
        const JUMP: i32 = -3;
        const GOTO: i32 = -4;
        for (expressions, ends, jump) in [
            (verdict(0, None), true, None),
            (("reject", Vec::new()), true, None),
            (verdict(1, None), false, None),
            (verdict(JUMP, Some("other")), false, Some("other")),
            (verdict(GOTO, Some("other")), false, Some("other")),
        ] {
            let found = rule(&[expressions]);
            assert_eq!(found.filter.is_some(), ends);
            assert_eq!(found.jump.as_deref(), jump);
        }
    }

    /// `-m rpfilter --invert -j DROP`, and nftables' `fib saddr . iif oif missing drop`.
    #[test]
    fn a_test_of_the_way_back_names_no_destination() {
        let of_iptables = [
            text(1, "rpfilter"),
            numbers(&[(2, 0)]),
            attribute(3, &[4, 0]),
        ];
        for expressions in [
            vec![("match", of_iptables.concat()), verdict(0, None)],
            vec![
                ("fib", numbers(&[(1, 1), (2, 1), (3, 9)])),
                compare(0, &[0; 4]),
                verdict(0, None),
            ],
        ] {
            assert_eq!(rule(&expressions).filter, Some(Match(Vec::new())));
        }
    }

    #[test]
    fn ports_of_iptables_matches_are_read() {
        let ports =
            |list: &[u16]| -> Vec<u8> { list.iter().flat_map(|port| port.to_ne_bytes()).collect() };
        let of = |name: &str, revision: u32, info: &[u8]| {
            let data = [text(1, name), numbers(&[(2, revision)]), attribute(3, info)];
            of_iptables(&data.concat())
        };
        let any = [0, u16::MAX];
        let tcp = |to: [u16; 2], flags: u8| {
            let info = [ports(&any), ports(&to), vec![0, 0, 0, flags]].concat();
            of("tcp", 0, &info)
        };
        assert_eq!(tcp([80, 90], 0), Some(Condition::Ports(vec![80..=90])));
        assert_eq!(tcp([80, 80], 2), Some(Condition::OtherPorts(vec![80..=80])));
        assert_eq!(tcp(any, 0), None);
        let udp = [ports(&any), ports(&[53, 53]), vec![0, 0]].concat();
        assert_eq!(of("udp", 0, &udp), Some(Condition::Ports(vec![53..=53])));
        let multiport = |about: u8| {
            let mut all = [0; 15];
            all[..3].copy_from_slice(&[30_080, 80, 90]);
            let mut marks = [0; 15];
            marks[1] = 1;
            let info = [vec![about, 3], ports(&all), marks.to_vec(), vec![0]].concat();
            of("multiport", 1, &info)
        };
        let expected = Condition::Ports(vec![30_080..=30_080, 80..=90]);
        assert_eq!(multiport(1), Some(expected));
        assert_eq!(multiport(0), None, "source ports");
        assert_eq!(of("tcp", 0, &[1, 2]), None);
        assert_eq!(of("multiport", 1, &[1, 15, 0]), None);
    }
}
