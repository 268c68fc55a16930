// What the start-up diagnosis says about good and degraded machines.
#include "daemon/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace llmd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MachineFacts good_machine() {
  MachineFacts facts;
  facts.files = {{"/models", "ext4", "O_DIRECT, 512-byte blocks", true, false, 512}};
  facts.read_path = "io_uring";
  facts.read_path_reason = "io_uring, 256 reads at once at most";
  facts.arena_bytes = facts.huge_bytes = 4ull << 30;
  facts.locked = true;
  facts.drive.bytes = 1 << 30;
  facts.drive.samples = {{2 << 20, 1.0e9}, {4 << 20, 1.9e9}, {8 << 20, 2.0e9}};
  facts.drive.bytes_in_flight = 4 << 20;
  facts.drive.bytes_per_second = 1.9e9;
  facts.expert_bytes_per_token = 1'000'000'000;
  facts.experts_resident = 250;
  facts.experts = 1000;
  return facts;
}

std::vector<std::string> degraded(const MachineFacts& facts) {
  std::vector<std::string> lines;
  for (const DiagnosisLine& line : diagnose(facts))
    if (line.degraded) lines.push_back(line.text);
  return lines;
}

TEST(Diagnosis, SaysEverythingInPlainLines_WhenAllIsWell) {
  std::vector<std::string> lines;
  for (const DiagnosisLine& line : diagnose(good_machine())) {
    EXPECT_FALSE(line.degraded) << line.text;
    lines.push_back(line.text);
  }
  EXPECT_THAT(lines,
              ElementsAre("drive: /models is ext4, O_DIRECT, 512-byte blocks",
                          "reads: io_uring (io_uring, 256 reads at once at most)",
                          "memory: 4.00 GiB, locked, 100 % of it on huge pages",
                          "drive speed: 1.90 GB/s with 4.00 MiB in flight, the least that comes within 95 % of the "
                          "best (2.00 MiB: 1.00 GB/s, 4.00 MiB: 1.90 GB/s, 8.00 MiB: 2.00 GB/s)",
                          HasSubstr("(250 of 1000 fit)")));
}

TEST(Diagnosis, ImpliesTheSecondsOfAToken_FromBytesHitRateAndBandwidth) {
  MachineFacts facts = good_machine();
  // 81.3 % hit: 187 MB missed at 1.9 GB/s.
  EXPECT_THAT(diagnose(facts).back().text, HasSubstr("take the drive 0.098 s a token"));
  facts.experts_resident = facts.experts;
  EXPECT_THAT(diagnose(facts).back().text, HasSubstr("decoding reads nothing"));
}

TEST(Diagnosis, NamesTheCure_WhenReadsAreBuffered) {
  MachineFacts facts = good_machine();
  facts.files[0] = {"/shm", "tmpfs", "buffered (the file system refuses O_DIRECT)", false, true, 4096};
  EXPECT_THAT(degraded(facts), ElementsAre(HasSubstr("keep the model on a file system with direct reads")));
}

TEST(Diagnosis, NamesTheCure_WhenTheFileSystemMayBlock) {
  MachineFacts facts = good_machine();
  facts.files[0].file_system = "FUSE";
  facts.files[0].may_block = true;
  EXPECT_THAT(degraded(facts), ElementsAre(HasSubstr("go through threads")));
}

TEST(Diagnosis, GivesTheReasonWithItsCure_WhenTheRingIsDenied) {
  MachineFacts facts = good_machine();
  facts.read_path = "threads";
  facts.read_path_reason = "io_uring is switched off; allow it with: sysctl kernel.io_uring_disabled=0";
  EXPECT_THAT(degraded(facts), ElementsAre(HasSubstr("allow it with: sysctl")));
  facts.threads_asked_for = true;
  EXPECT_THAT(degraded(facts), ElementsAre());
}

TEST(Diagnosis, NamesTheCure_WhenHugePagesCannotBeHad) {
  MachineFacts facts = good_machine();
  facts.huge_bytes /= 2;
  EXPECT_THAT(degraded(facts), ElementsAre(HasSubstr("compact_memory")));
  facts.arena_warned = true;  // the arena has said why already
  EXPECT_THAT(degraded(facts), ElementsAre());
}

TEST(Diagnosis, SaysItOnce_ForTheShardsOfAModel) {
  MachineFacts facts = good_machine();
  facts.files.assign(9, facts.files[0]);
  EXPECT_EQ(diagnose_files(facts.files).size(), 1u);
  EXPECT_THAT(diagnose_files(facts.files)[0].text, HasSubstr("/models (9 files)"));
  facts.files[3].folder = "/other";
  EXPECT_EQ(diagnose_files(facts.files).size(), 2u);
}

TEST(Diagnosis, SaysThatTheDepthIsADefault_WhenTheCoreWeightsAreFew) {
  MachineFacts facts = good_machine();
  facts.drive.samples.clear();
  facts.drive.bytes_in_flight = 64 << 20;
  EXPECT_THAT(diagnose(facts)[3].text, HasSubstr("too few to find a depth by: 64 MiB in flight"));
}

}  // namespace
}  // namespace llmd
