//! The time since an entry's last use, which several processors write.

/// Returns the number of ticks or seconds from `then` to `now`. A processor may have read `now` before another one
/// wrote a later `then`: then it is 0.
#[inline(always)]
pub const fn elapsed(then: u32, now: u32) -> u32 {
    let difference = now.wrapping_sub(then);
    if difference > u32::MAX / 2 {
        0
    } else {
        difference
    }
}

#[cfg(test)]
mod tests {
    use super::elapsed;

    #[test]
    fn who_is_late_sees_no_age() {
        for (then, now, expected) in [
            (5, 8, 3),
            (8, 8, 0),
            (9, 8, 0),
            (u32::MAX, 1, 2),
            (1, u32::MAX, 0),
        ] {
            assert_eq!(elapsed(then, now), expected, "{then} to {now}");
        }
    }
}
