// Kinds of addresses that a GID may carry.
#pragma once

#include <cstdint>

#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {

enum class Address : std::uint8_t { None, Ipv4, Ipv6, LinkLocal };

/// None: zero, or an address that no other host reaches (multicast, loopback).
[[nodiscard]] Address address_of(const Gid& gid);

}  // namespace weightlift::transport
