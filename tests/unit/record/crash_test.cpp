// What is left of a run that is killed, or whose disk fills up, at every write that HDF5 makes, and
// of one on a file system that lacks calls. The functions below stand before the C library's.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "weightlift/record/resume.hpp"

#include "example_run.hpp"

namespace {

enum class Fault { None, Kill, Tear, DiskFull };
Fault fault = Fault::None;
long writes_until_fault = 0;
std::atomic<long>* writes_made = nullptr;  // shared with the parent

ssize_t write_or_fail(int file, const void* data, std::size_t size, off_t offset) {
    if (writes_made != nullptr) ++*writes_made;
    if (fault != Fault::None && writes_until_fault-- <= 0) {
        if (fault == Fault::DiskFull) {
            errno = ENOSPC;
            return -1;
        }
        // The kernel looks at signals between pages, so a killed write may end at one.
        constexpr std::size_t kPage = 4096;
        const std::size_t first = kPage - static_cast<std::size_t>(offset) % kPage;
        if (fault == Fault::Tear && first < size)
            (void)::syscall(SYS_pwrite64, file, data, first, offset);
        ::raise(SIGKILL);
    }
    return ::syscall(SYS_pwrite64, file, data, size, offset);
}

bool has_renameat2 = true;

}  // namespace

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) {
    if (!has_renameat2) {
        errno = EINVAL;  // as NFS answers
        return -1;
    }
    return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
extern "C" ssize_t pwrite(int file, const void* data, std::size_t size, off_t offset) {
    return write_or_fail(file, data, size, offset);
}
extern "C" ssize_t pwrite64(int file, const void* data, std::size_t size, off64_t offset) {
    return write_or_fail(file, data, size, offset);
}

namespace weightlift::record {
namespace {

using example::expect_equal;
using example::Folder;

constexpr std::size_t kRanks = 60;  // a row of phases is larger than a page
constexpr std::size_t kCases = 2;

/// What the child has done; in memory that outlives it.
struct Progress {
    std::atomic<long> writes;
    std::atomic<bool> created, finished;
    std::atomic<std::uint64_t> cases, events, ended;
    std::atomic<std::uint64_t> iterations[kCases];
};

class Crash : public testing::Test {
protected:
    Crash() {
        void* memory = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::runtime_error("mmap");
        progress_ = new (memory) Progress{};
    }

public:
    ~Crash() override { ::munmap(progress_, sizeof(Progress)); }

protected:
    void record(const std::string& path, std::uint64_t iterations) {
        const auto recorder = create_results(path);
        progress_->created = true;
        recorder->begin_run(example::run(kRanks));
        for (std::uint64_t c = 0; c < kCases; ++c) {
            const int number =
                recorder->begin_case(example::test_case(), kRanks, example::setup(kRanks));
            ++progress_->cases;
            for (std::uint64_t i = 0; i < iterations; ++i) {
                recorder->iteration(number, example::sample(c, i, kRanks));
                ++progress_->iterations[c];
            }
            recorder->event({.time_utc = "t", .kind = "retry", .text = std::to_string(c)});
            ++progress_->events;
            const std::vector<FingerprintRow> fingerprints(100);
            recorder->fingerprints(number, fingerprints);
            if (c > 0) continue;  // a run ends its last case
            recorder->end_case(number, {"complete", 0, ""});
            ++progress_->ended;
        }
        recorder->finish("complete", ExitCode::Ok);
        progress_->finished = true;
    }

    /// Runs `child` in a process of its own, waits, and gives its wait status.
    template <class Child>
    pid_t start(Child child) {
        new (progress_) Progress{};
        const pid_t pid = ::fork();
        if (pid == 0) {
            writes_made = &progress_->writes;
            std::exit(child());
        }
        return pid;
    }
    static int wait_for(pid_t pid) {
        int status = 0;
        EXPECT_EQ(::waitpid(pid, &status, 0), pid);
        return status;
    }

    /// The file has what had been returned to the child, and at most the step it was in.
    void expect_no_loss(const std::string& path) {
        if (std::filesystem::exists(path)) {
            EXPECT_EQ(read_results(path, false).status, "complete");
        } else if (!progress_->created) {
            return;
        }
        const RunRecord record = read_results(path, true);
        EXPECT_TRUE(record.status == "aborted" || record.status == "complete") << record.status;
        expect_step("cases", record.cases.size(), progress_->cases);
        expect_step("events", record.events.size(), progress_->events);
        for (std::size_t c = 0; c < record.cases.size(); ++c) {
            const CaseRecord& found = record.cases[c];
            EXPECT_EQ(found.setup_ns, example::setup(kRanks));
            expect_step("iterations", found.samples.size(), progress_->iterations[c]);
            for (std::size_t i = 0; i < found.samples.size(); ++i)
                expect_equal(found.samples[i], example::sample(c, i, kRanks));
        }
        const auto ended =
            std::count_if(record.cases.begin(), record.cases.end(),
                          [](const CaseRecord& found) { return found.outcome.has_value(); });
        expect_step("cases that ended", static_cast<std::size_t>(ended), progress_->ended);
        for (const CaseRecord& found : record.cases)
            if (found.outcome) {
                EXPECT_EQ(found.fingerprints.size(), 100U);
            }
        for (std::size_t i = 0; i < record.events.size(); ++i)
            EXPECT_EQ(record.events[i].text, std::to_string(i));
    }
    static void expect_step(const char* what, std::size_t found, std::uint64_t returned) {
        EXPECT_GE(found, returned) << what;
        EXPECT_LE(found, returned + 1) << what;
    }

    /// The fault at the first write, at the second, … until a run has none.
    void fault_at_every_write(Fault what, const std::function<int(const std::string&)>& child) {
        long n = 0;
        for (; !progress_->finished; ++n) {
            const Folder folder;
            const std::string path = folder.file("run.h5");
            const int status = wait_for(start([&] {
                fault = what;
                writes_until_fault = n;
                return child(path);
            }));
            SCOPED_TRACE("write " + std::to_string(n));
            if (progress_->writes == 0) GTEST_SKIP() << "this HDF5 does not call our pwrite";
            const bool survives = what == Fault::DiskFull || progress_->finished;
            EXPECT_TRUE(survives ? status == 0 : WIFSIGNALED(status)) << status;
            expect_no_loss(path);
            if (HasFailure()) return;
        }
        EXPECT_GT(n, 100);
    }

    Progress* progress_;
};

TEST_F(Crash, killed_at_any_write_keeps_every_finished_iteration) {
    fault_at_every_write(Fault::Kill, [&](const std::string& path) {
        record(path, 2);
        return 0;
    });
}

TEST_F(Crash, killed_within_any_write_keeps_every_finished_iteration) {
    fault_at_every_write(Fault::Tear, [&](const std::string& path) {
        record(path, 2);
        return 0;
    });
}

TEST_F(Crash, full_disk_is_an_error_with_its_cause_and_loses_nothing) {
    fault_at_every_write(Fault::DiskFull, [&](const std::string& path) {
        try {
            record(path, 2);
        } catch (const ResultsError& error) {
            const bool says_why =
                std::string(error.what()).find("No space left on device") != std::string::npos;
            if (!says_why) std::cerr << error.what() << '\n';
            return says_why ? 0 : 1;
        }
        return progress_->finished ? 0 : 2;
    });
}

void leave_unfinished(const std::string& path) {
    const auto recorder = create_results(path);
    recorder->begin_run(example::run(kRanks));
    for (std::uint64_t c = 0; c < kCases; ++c) {
        const int number =
            recorder->begin_case(example::test_case(), kRanks, example::setup(kRanks));
        recorder->iteration(number, example::sample(c, 0, kRanks));
        recorder->end_case(number, {"complete", 0, ""});
    }
}

void resume(const std::string& path) {
    const auto left = read_unfinished(path);
    if (!left) throw std::runtime_error("nothing is left");
    set_aside(path);
    const auto recorder = create_results(path);
    recorder->begin_run(left->run);
    for (const CaseRecord& one : left->cases) copy_case(*recorder, one);
    drop_aside(path);
    recorder->finish("complete", ExitCode::Ok);
}

TEST_F(Crash, killed_while_it_takes_over_an_older_file_keeps_every_case_that_ended) {
    long n = 0;
    for (; !progress_->finished; ++n) {
        const Folder folder;
        const std::string path = folder.file("run.h5");
        leave_unfinished(path);
        wait_for(start([&] {
            fault = Fault::Kill;
            writes_until_fault = n;
            resume(path);
            progress_->finished = true;
            return 0;
        }));
        SCOPED_TRACE("write " + std::to_string(n));
        if (progress_->writes == 0) GTEST_SKIP() << "this HDF5 does not call our pwrite";
        // The next attempt finds all of it, wherever this one ended.
        if (!progress_->finished) {
            ASSERT_TRUE(has_unfinished(path));
            resume(path);
        }
        const RunRecord record = read_results(path, false);
        ASSERT_EQ(record.cases.size(), kCases);
        for (std::size_t c = 0; c < kCases; ++c) {
            ASSERT_TRUE(record.cases[c].outcome);
            ASSERT_EQ(record.cases[c].samples.size(), 1U);
            expect_equal(record.cases[c].samples[0], example::sample(c, 0, kRanks));
        }
    }
    EXPECT_GT(n, 30);
}

TEST_F(Crash, file_size_limit_is_an_error_with_its_cause_and_loses_nothing) {
    constexpr rlim_t kStep = 1500;
    for (rlim_t limit = 0; !progress_->finished; limit += kStep) {
        ASSERT_LT(limit, 10'000'000U);
        const Folder folder;
        const std::string path = folder.file("run.h5");
        const int status = wait_for(start([&] {
            ::signal(SIGXFSZ, SIG_IGN);
            const rlimit all = {limit, limit};
            if (::setrlimit(RLIMIT_FSIZE, &all) != 0) return 3;
            try {
                record(path, 2);
            } catch (const ResultsError& error) {
                return std::string(error.what()).find("File too large") != std::string::npos ? 0
                                                                                             : 1;
            }
            return progress_->finished ? 0 : 2;
        }));
        SCOPED_TRACE("limit " + std::to_string(limit));
        EXPECT_EQ(status, 0);
        expect_no_loss(path);
        if (HasFailure()) return;
    }
}

TEST_F(Crash, file_system_without_renameat2_is_published_to_without_replacing) {
    has_renameat2 = false;
    for (const bool taken : {false, true}) {
        const Folder folder;
        const std::string path = folder.file("run.h5");
        const auto recorder = create_results(path);
        if (taken) std::ofstream(path) << "somebody's";
        const auto finish = [&] { recorder->finish("complete", ExitCode::Ok); };
        if (taken) {
            EXPECT_THROW(finish(), ResultsError);
        } else {
            finish();
        }
        EXPECT_EQ(std::filesystem::exists(path + ".part"), taken);
        EXPECT_EQ(read_results(taken ? path + ".part" : path, true).status, "complete");
    }
    has_renameat2 = true;
}

TEST_F(Crash, killed_at_a_random_moment_keeps_every_finished_iteration) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 60 && !HasFailure(); ++round) {
        const Folder folder;
        const std::string path = folder.file("run.h5");
        const auto moment = std::chrono::microseconds(random() % 60'000);
        const pid_t pid = start([&] {
            record(path, 200);
            return 0;
        });
        const auto end = std::chrono::steady_clock::now() + moment;
        while (std::chrono::steady_clock::now() < end) ::usleep(50);
        ::kill(pid, SIGKILL);
        wait_for(pid);
        expect_no_loss(path);
    }
}

}  // namespace
}  // namespace weightlift::record
