#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/cuda/device.hpp"

namespace weightlift::cuda {

int choose_device(int local_rank, int visible) {
    WEIGHTLIFT_ENSURES(local_rank >= 0);
    if (visible <= 0)
        throw ConfigError(fmt::format("memory cuda: local rank {} sees no GPU", local_rank));
    return local_rank % visible;
}

}  // namespace weightlift::cuda
