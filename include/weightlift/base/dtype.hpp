// Element types of weights. Only the width and the bit pattern matter to a transfer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weightlift {

enum class DType : std::uint8_t { BF16, F16, F32, F8E4M3 };

/// Bytes per element: 1, 2 or 4.
[[nodiscard]] constexpr std::uint64_t element_bytes(DType dtype) {
    switch (dtype) {
        case DType::F32: return 4;
        case DType::F8E4M3: return 1;
        case DType::BF16:
        case DType::F16: return 2;
    }
    return 0;
}

/// "bf16", "fp16", "fp32", "fp8".
[[nodiscard]] std::string_view to_string(DType dtype);
/// Accepts the names above and those of Hugging Face (bfloat16, float16, float32, float8_e4m3fn).
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name);

}  // namespace weightlift
