//! The settings of this plugin: one table, from which `plugin.toml`'s options are checked and read.

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Error, Options};

/// Settings with their defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Type of the attention cache.
    pub kv_type: KvType,
    /// Flash attention.
    pub flash_attention: FlashAttention,
    /// Tokens computed at once, at most.
    pub ubatch: u32,
    /// Map the file instead of reading it.
    pub mmap: bool,
    /// Keep the whole cache of sliding-window layers, so that sequences can be cut anywhere.
    pub swa_full: bool,
    /// Longest text the embedder takes.
    pub embed_tokens: u32,
}

/// Type of the attention cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvType {
    /// 16-bit floats.
    F16,
    /// 8-bit blocks: half the memory, slightly other answers.
    Q8_0,
}

impl KvType {
    /// ggml's number.
    pub fn ggml(self) -> sys::ggml_type {
        match self {
            Self::F16 => sys::GGML_TYPE_F16,
            Self::Q8_0 => sys::GGML_TYPE_Q8_0,
        }
    }

    /// Bytes that `f16_bytes` of an f16 cache become.
    pub fn scaled(self, f16_bytes: u64) -> u64 {
        match self {
            Self::F16 => f16_bytes,
            // 32 values in 34 bytes instead of 64.
            Self::Q8_0 => f16_bytes.saturating_mul(34).div_ceil(64),
        }
    }
}

/// Flash attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashAttention {
    /// Where the device can.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl FlashAttention {
    /// llama.cpp's number.
    pub fn llama(self) -> sys::llama_flash_attn_type {
        match self {
            Self::Auto => sys::LLAMA_FLASH_ATTN_TYPE_AUTO,
            Self::On => sys::LLAMA_FLASH_ATTN_TYPE_ENABLED,
            Self::Off => sys::LLAMA_FLASH_ATTN_TYPE_DISABLED,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { kv_type: KvType::F16, flash_attention: FlashAttention::Auto, ubatch: 512, mmap: true, swa_full: true, embed_tokens: 2048 }
    }
}

impl Settings {
    /// Reads `options`; what is not there keeps its default, what is not understood is an error.
    pub fn read(options: Options<'_>) -> Result<Self, Error> {
        let mut settings = Self::default();
        for (name, value) in options.iter() {
            let allowed = |values: &str| Error::invalid_argument(format!("option {name}: {value:?} is not one of {values}"));
            match name {
                "kv_type" => {
                    settings.kv_type = match value {
                        "f16" => KvType::F16,
                        "q8_0" => KvType::Q8_0,
                        _ => return Err(allowed("f16, q8_0")),
                    }
                }
                "flash_attention" => {
                    settings.flash_attention = match value {
                        "auto" => FlashAttention::Auto,
                        "on" => FlashAttention::On,
                        "off" => FlashAttention::Off,
                        _ => return Err(allowed("auto, on, off")),
                    }
                }
                "mmap" => settings.mmap = value.parse().map_err(|_| allowed("true, false"))?,
                "swa_full" => settings.swa_full = value.parse().map_err(|_| allowed("true, false"))?,
                "ubatch" => settings.ubatch = number(value, 1, 8192).ok_or_else(|| allowed("1 to 8192"))?,
                "embed_tokens" => settings.embed_tokens = number(value, 16, 32768).ok_or_else(|| allowed("16 to 32768"))?,
                _ => return Err(Error::invalid_argument(format!("option {name:?} is not known to this plugin"))),
            }
        }
        if settings.kv_type == KvType::Q8_0 && settings.flash_attention == FlashAttention::Off {
            return Err(Error::invalid_argument("option kv_type = q8_0 needs flash attention; leave flash_attention on auto"));
        }
        Ok(settings)
    }
}

fn number(text: &str, least: u32, most: u32) -> Option<u32> {
    text.parse().ok().filter(|n| (least..=most).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_keeps_its_default() {
        assert_eq!(Settings::read(Options::default()), Ok(Settings::default()));
    }

    #[test]
    fn every_option_of_plugin_toml_is_read() {
        let pairs = [
            ("kv_type", "q8_0"),
            ("flash_attention", "on"),
            ("mmap", "false"),
            ("swa_full", "false"),
            ("ubatch", "64"),
            ("embed_tokens", "512"),
        ];
        let settings = Settings::read(Options::new(&pairs)).expect("all are known");
        assert_eq!(
            settings,
            Settings {
                kv_type: KvType::Q8_0,
                flash_attention: FlashAttention::On,
                ubatch: 64,
                mmap: false,
                swa_full: false,
                embed_tokens: 512,
            }
        );
        let toml = include_str!("../plugin.toml");
        for (name, _) in pairs {
            assert!(toml.contains(&format!("name = \"{name}\"")), "{name} is not in plugin.toml");
        }
        assert_eq!(toml.matches("[[option]]").count(), pairs.len());
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for pair in [("kv_type", "q4_0"), ("ubatch", "0"), ("mmap", "yes"), ("kvtype", "f16")] {
            let error = Settings::read(Options::new(&[pair])).expect_err("must be refused");
            assert!(error.message().contains(pair.0), "{error}");
        }
        let both = [("kv_type", "q8_0"), ("flash_attention", "off")];
        assert!(Settings::read(Options::new(&both)).is_err());
    }
}
