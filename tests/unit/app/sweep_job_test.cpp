#include <gtest/gtest.h>

#include "app/sweep/job.hpp"
#include "unit/layout/refused.hpp"

namespace weightlift::app::sweep {
namespace {

std::vector<std::string> identities(std::string_view toml) {
    std::vector<std::string> all;
    for (const Settings& settings : multiply(parse_job(toml))) all.push_back(identity(settings));
    return all;
}

TEST(SweepJob, multiplies_lists_and_the_last_one_varies_fastest) {
    EXPECT_EQ(identities("model = \"m\"\nlayers = [1, 2]\ntransport = [\"shm\", \"mpi\"]\n"),
              (std::vector<std::string>{
                  "layers=1 model=m transport=shm", "layers=1 model=m transport=mpi",
                  "layers=2 model=m transport=shm", "layers=2 model=m transport=mpi"}));
}

TEST(SweepJob, keeps_commas_and_equals_signs_inside_of_values) {
    EXPECT_EQ(identities("trainer = [\"tp=2,ep=8,etp=1\", 'tp=4']\nrollout = \"tp=2,ep=2\"\n"),
              (std::vector<std::string>{"rollout=tp=2,ep=2 trainer=tp=2,ep=8,etp=1",
                                        "rollout=tp=2,ep=2 trainer=tp=4"}));
}

TEST(SweepJob, reads_lists_over_several_lines) {
    EXPECT_EQ(
        identities("layers = [\n  1,\n  2 , 3\n]\n# a comment\nmtp = true # another\n").size(), 3U);
}

TEST(SweepJob, makes_a_product_of_each_section_with_what_stands_above) {
    EXPECT_EQ(identities("layers = [1, 2]\ntransport = \"shm\"\n"
                         "[[cases]]\nwindow = \"1MiB\"\n"
                         "[[cases]]\nlayers = 3\ntransport = [\"shm\", \"mpi\"]\n"),
              (std::vector<std::string>{"layers=1 transport=shm window=1MiB",
                                        "layers=2 transport=shm window=1MiB",
                                        "layers=3 transport=shm", "layers=3 transport=mpi"}));
}

TEST(SweepJob, keeps_what_is_for_the_whole_sweep_apart) {
    const Job job =
        parse_job("output = \"a.h5\"\nlabels = \"night run\"\nrepetitions = 3\nlayers = 1\n");
    EXPECT_EQ(job.output, "a.h5");
    EXPECT_EQ(job.labels, "night run");
    EXPECT_EQ(job.repetitions, 3U);
    EXPECT_EQ(multiply(job), (std::vector<Settings>{{{"layers", "1"}}}));
}

TEST(SweepJob, refuses_what_it_would_misunderstand) {
    struct Row {
        const char *name, *toml, *says;
    };
    for (const Row& row : {
             Row{"unknown section", "[trainer]\ntp = 2\n", "the only sections are [[cases]]"},
             Row{"key twice", "layers = 1\nmtp = true\nlayers = 2\n",
                 "line 3: layers is there twice"},
             Row{"value twice", "layers = [1, 1]\n", "layers: 1 is there twice"},
             Row{"equal cases of two sections",
                 "[[cases]]\nlayers = [1, 2]\n[[cases]]\nlayers = 2\n",
                 "two cases are equal: layers=2"},
             Row{"empty list", "layers = []\n", "layers: has no value"},
             Row{"'#' inside of a text", "layers = 1\nlabels = \"run #1\"\n", "line 2: a '#'"},
             Row{"no value", "layers =\n", "line 1: layers= is not KEY = VALUE"},
             Row{"no key", "mtp = true\nlayers\n", "line 2: layers is not KEY = VALUE"},
             Row{"open list", "layers = [1,\n2\n", "a list does not end"},
             Row{"open text", "model = \"m\nlayers = 1\n", "line 1: a text does not end"},
             Row{"role", "role = \"trainer\"\n", "role: is no part of a job"},
             Row{"output of a section", "[[cases]]\noutput = \"a.h5\"\n", "for the whole sweep"},
             Row{"two outputs", "output = [\"a.h5\", \"b.h5\"]\n", "takes one value"},
             Row{"no repetition", "repetitions = 0\n", "repetitions 0"},
         }) {
        try {
            static_cast<void>(identities(row.toml));
            ADD_FAILURE() << row.name << " is accepted";
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find(row.says), std::string::npos)
                << row.name << ": " << error.what();
        }
    }
}

TEST(SweepJob, knows_a_case_again_whatever_the_order_of_its_keys) {
    EXPECT_EQ(identity({{"model", "m"}, {"layers", "2"}}),
              identity({{"layers", "2"}, {"model", "m"}}));
}

TEST(SweepJob, names_what_sets_cases_apart_besides_the_parts_of_a_key) {
    const auto all =
        multiply(parse_job("model = [\"a\", \"b\"]\nlayers = [1, 2]\nverify = \"full\"\n"
                           "[[cases]]\n[[cases]]\nwindow = \"1MiB\"\n"));
    EXPECT_EQ(variants(all),
              (std::vector<std::string>{"layers=1", "layers=2", "layers=1", "layers=2",
                                        "layers=1,window=1MiB", "layers=2,window=1MiB",
                                        "layers=1,window=1MiB", "layers=2,window=1MiB"}));
}

TEST(SweepJob, gives_a_flag_for_each_setting_and_one_for_each_group_of_rollouts) {
    EXPECT_EQ(to_arguments({{"model", "m"}, {"rollout", "tp=2,ep=2 + tp=4"}, {"mtp", "true"}}),
              (std::vector<std::string>{"--model=m", "--rollout=tp=2,ep=2", "--rollout=tp=4",
                                        "--mtp=true"}));
}

}  // namespace
}  // namespace weightlift::app::sweep
