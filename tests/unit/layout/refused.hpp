// Runs what must be refused and returns the sentence.
#pragma once

#include <string>

#include "weightlift/base/error.hpp"

namespace weightlift::layout {

/// The ConfigError's message, or a text that no expectation contains.
template <class Function>
std::string refusal_of(Function&& function) {
    try {
        (void)function();
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "(not refused)";
}

}  // namespace weightlift::layout

#define EXPECT_REFUSAL(expression, part)                                    \
    do {                                                                    \
        const std::string message_ =                                        \
            ::weightlift::layout::refusal_of([&] { return (expression); }); \
        EXPECT_NE(message_.find(part), std::string::npos)                   \
            << "message: " << message_ << "\nwanted: " << (part);           \
    } while (false)
