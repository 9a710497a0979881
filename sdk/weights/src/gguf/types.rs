//! The types of ggml tensors: one table. A row has everything about its type; numbers are those that files carry.

/// A tensor type: how values are packed into blocks.
#[derive(Debug, PartialEq, Eq)]
pub struct GgmlType {
    /// Number in the file.
    pub id: u32,
    /// Name as people write it.
    pub name: &'static str,
    /// Values per block.
    pub block: u64,
    /// Bytes per block.
    pub bytes: u64,
}

const fn row(id: u32, name: &'static str, block: u64, bytes: u64) -> GgmlType {
    GgmlType { id, name, block, bytes }
}

/// All types that a GGUF file of today may carry. Numbers that are not here were removed from the format.
pub static GGML_TYPES: &[GgmlType] = &[
    row(0, "F32", 1, 4),
    row(1, "F16", 1, 2),
    row(2, "Q4_0", 32, 18),
    row(3, "Q4_1", 32, 20),
    row(6, "Q5_0", 32, 22),
    row(7, "Q5_1", 32, 24),
    row(8, "Q8_0", 32, 34),
    row(9, "Q8_1", 32, 36),
    row(10, "Q2_K", 256, 84),
    row(11, "Q3_K", 256, 110),
    row(12, "Q4_K", 256, 144),
    row(13, "Q5_K", 256, 176),
    row(14, "Q6_K", 256, 210),
    row(15, "Q8_K", 256, 292),
    row(16, "IQ2_XXS", 256, 66),
    row(17, "IQ2_XS", 256, 74),
    row(18, "IQ3_XXS", 256, 98),
    row(19, "IQ1_S", 256, 50),
    row(20, "IQ4_NL", 32, 18),
    row(21, "IQ3_S", 256, 110),
    row(22, "IQ2_S", 256, 82),
    row(23, "IQ4_XS", 256, 136),
    row(24, "I8", 1, 1),
    row(25, "I16", 1, 2),
    row(26, "I32", 1, 4),
    row(27, "I64", 1, 8),
    row(28, "F64", 1, 8),
    row(29, "IQ1_M", 256, 56),
    row(30, "BF16", 1, 2),
    row(34, "TQ1_0", 256, 54),
    row(35, "TQ2_0", 256, 66),
    row(39, "MXFP4", 32, 17),
    row(40, "NVFP4", 64, 36),
    row(41, "Q1_0", 128, 18),
    row(42, "Q2_0", 64, 18),
];

impl GgmlType {
    /// The type with this number, if a file may carry it.
    pub fn by_id(id: u32) -> Option<&'static GgmlType> {
        GGML_TYPES.iter().find(|row| row.id == id)
    }

    /// The type with this name, in any case.
    pub fn by_name(name: &str) -> Option<&'static GgmlType> {
        GGML_TYPES.iter().find(|row| row.name.eq_ignore_ascii_case(name))
    }

    /// Bytes of `values` values; `None` when they are not whole blocks or the number does not fit.
    pub fn size_of(&self, values: u64) -> Option<u64> {
        if !values.is_multiple_of(self.block) {
            return None;
        }
        (values / self.block).checked_mul(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_unique() {
        for (i, a) in GGML_TYPES.iter().enumerate() {
            for b in &GGML_TYPES[i + 1..] {
                assert_ne!(a.id, b.id);
                assert_ne!(a.name, b.name);
            }
        }
    }

    #[test]
    fn sizes_are_whole_blocks_and_never_overflow() {
        let q4_1 = GgmlType::by_name("q4_1").unwrap();
        assert_eq!(q4_1.size_of(64), Some(40));
        assert_eq!(q4_1.size_of(33), None);
        let f64 = GgmlType::by_name("F64").unwrap();
        assert_eq!(f64.size_of(u64::MAX), None);
    }
}
