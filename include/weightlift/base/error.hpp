// Errors carry the exit code they lead to, so that whoever first knows what went wrong decides both
// the sentence and the verdict. Data mismatches and regressions are results, not exceptions.
#pragma once

#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weightlift {

/// Process exit codes, as documented in README ("Exit codes").
enum class ExitCode : int {
    Ok = 0,
    Internal = 1,
    Usage = 2,
    Preflight = 3,
    Transport = 4,
    Deadline = 5,
    WrongData = 6,
    Regression = 7,
    ResultsFile = 8,
    NotComparable = 9,
};

class Error : public std::runtime_error {
public:
    Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
    [[nodiscard]] ExitCode code() const noexcept { return code_; }

private:
    ExitCode code_;
};

/// Bad input: names the field, its value and the rule. Thrown before any resource is opened.
class ConfigError : public Error {
public:
    explicit ConfigError(const std::string& what) : Error(ExitCode::Usage, what) {}
};

/// A transport could not do what its declared capabilities promise; names the peer.
class TransportError : public Error {
public:
    explicit TransportError(const std::string& what) : Error(ExitCode::Transport, what) {}
};

/// A deadline passed or a peer was lost; names the peer and the event waited for.
class DeadlineError : public Error {
public:
    explicit DeadlineError(const std::string& what) : Error(ExitCode::Deadline, what) {}
};

/// The results file is unreadable, unwritable or already there.
class ResultsError : public Error {
public:
    explicit ResultsError(const std::string& what) : Error(ExitCode::ResultsFile, what) {}
};

/// "a, b, c, d and 12 more hosts" for messages, with `what` = "hosts".
[[nodiscard]] std::string name_some(std::span<const std::string> names, std::string_view what = "");

/// Our own bug. Kept in Release: a benchmark that is wrong must not print numbers.
[[noreturn]] void fail_invariant(const char* expression, const std::source_location& where);

}  // namespace weightlift

#define WEIGHTLIFT_ENSURES(expression) \
    ((expression) ? void(0)            \
                  : ::weightlift::fail_invariant(#expression, std::source_location::current()))
