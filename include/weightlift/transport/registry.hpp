// Names of the transports built in.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport {

/// In order of preference for `auto` on one host; never empty.
[[nodiscard]] std::span<const std::string_view> transport_names();

/// Throws ConfigError, listing the names built in, for an unknown one.
[[nodiscard]] std::unique_ptr<Transport> make_transport(std::string_view name,
                                                        const Context& context);

/// Why this transport cannot be used by this process, with the remedy; empty: it can, as far as can
/// be told without opening anything.
[[nodiscard]] std::string transport_problem(std::string_view name, const Context& context);

/// A peer with whom this rank shares bytes, and why they cannot go by a transport.
struct Unreached {
    int rank = 0;
    std::string why;
};

/// Collective over the linked ranks, before any memory is registered: where nothing but an attempt
/// tells whether two ranks of one host reach each other, makes it. Both ends of a pair get the same
/// answer. Empty for transports that reach whomever their capabilities say.
[[nodiscard]] std::vector<Unreached> find_unreached(std::string_view name, const Context& context,
                                                    const LinkTable& links);

/// Declared without opening anything.
[[nodiscard]] Capabilities transport_capabilities(std::string_view name);

}  // namespace weightlift::transport
