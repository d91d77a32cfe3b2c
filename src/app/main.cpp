#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "weightlift/base/error.hpp"

#include "commands.hpp"
#include "text.hpp"

namespace {

constexpr const char* kUsage =
    R"(weightlift: plan, push, verify and record weight updates from trainers to rollouts

usage:
  mpirun -n RANKS weightlift push --model MODEL --trainer tp=8 --rollout tp=16 [flags]
  mpirun -n RANKS weightlift sweep JOB.toml [--resume] [--dry-run]   many cases, one launch, one file
  weightlift plan --model MODEL --trainer … --rollout … [flags]    what would be pushed, no MPI needed
  weightlift explain FILE | explain --observed TIME --cluster NAME …   where the time of an update went
  weightlift show FILE [--brief] [--allow-partial]                 print a results file
  weightlift compare BASE NEW [--threshold 5%]                     is NEW slower; each a file, a folder or a quoted glob
  weightlift report FILE… -o report.html                           one page, or --format markdown|csv; folders, globs
  [mpirun -n RANKS] weightlift doctor [--json]                     is this machine, or are these, fit for a push
  weightlift COMMAND --help | weightlift --version

exit codes: 0 right; 1 internal; 2 usage or configuration; 3 preflight (doctor); 4 transport;
            5 deadline or lost peer; 6 wrong data; 7 below a threshold or a regression; 8 results file;
            9 not comparable
)";

int dispatch(int argc, char** argv) {
    using namespace weightlift;
    const app::Arguments all(argv + 1, argv + argc);
    if (all.empty() || all.front() == "--help" || all.front() == "-h" || all.front() == "help") {
        std::fputs(kUsage, all.empty() ? stderr : stdout);
        return static_cast<int>(all.empty() ? ExitCode::Usage : ExitCode::Ok);
    }
    if (all.front() == "--version") {
        std::fputs(app::version_text().c_str(), stdout);
        return 0;
    }
    const app::Arguments arguments(all.begin() + 1, all.end());
    if (all.front() == "plan") return app::run_plan(arguments);
    if (all.front() == "explain") return app::run_explain(arguments);
    if (all.front() == "compare") return app::run_compare(arguments);
    if (all.front() == "report") return app::run_report(arguments);
    if (all.front() == "show") return app::run_show(arguments);
#if WEIGHTLIFT_WITH_MPI
    if (all.front() == "sweep") return app::run_sweep(arguments, &argc, &argv);
    if (all.front() == "push") return app::run_push(arguments, &argc, &argv);
    if (all.front() == "doctor") return app::run_doctor(arguments, &argc, &argv);
#else
    if (all.front() == "push" || all.front() == "sweep" || all.front() == "doctor")
        throw ConfigError(fmt::format(
            "{} needs MPI, and this build has none (WEIGHTLIFT_WITH_MPI=OFF)", all.front()));
#endif
    constexpr std::string_view kCommands[] = {"push",   "sweep",    "plan",   "explain",
                                              "show",   "compare",  "report", "doctor",
                                              "--help", "--version"};
    throw ConfigError(fmt::format("unknown command '{}'{}", all.front(),
                                  app::suggestion(all.front(), kCommands)));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return dispatch(argc, argv);
    } catch (const weightlift::Error& error) {
        fmt::print(stderr, "weightlift: {}\n", error.what());
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        fmt::print(stderr, "weightlift: internal error: {}\n", error.what());
        return static_cast<int>(weightlift::ExitCode::Internal);
    }
}
