// The KV store when things go wrong: crashes, damage, a full disk, foreign files. A wrong row must never come back.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstring>
#include <random>

#include "tests/kv/store_fixture.h"

namespace llmd {
namespace {

class DamagedStore : public StoreTest, public testing::WithParamInterface<uint32_t> {
 protected:
  std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::mt19937 random{GetParam()};
};

/// One thing that can happen to a file; true when it must be noticed.
bool harm(std::mt19937& random, const std::string& path, std::string bytes, const std::string& other) {
  auto write = [&](const std::string& what) { std::ofstream(path, std::ios::binary | std::ios::trunc) << what; };
  switch (random() % 6) {
    case 0:
    case 1: {  // a flipped bit, of which only those in the padding behind the rows do not matter
      size_t at = random() % 2 ? random() % 4096 : random() % bytes.size();
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
      write(bytes);
      uint32_t count;
      std::memcpy(&count, bytes.data() + 132, sizeof(count));
      return at < kRecordBlock + count * 40;
    }
    case 2:
      write(bytes.substr(0, random() % bytes.size()));
      return true;
    case 3:
      write(bytes + std::string(1 + random() % 9000, '\0'));
      return true;
    case 4:
      if (other == bytes) return false;
      write(other);
      return true;
    default:
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size()), bytes.end(), '\0');
      write(bytes.substr(0, bytes.size()));
      return false;  // where it begins in the padding it changes nothing
  }
}

TEST_P(DamagedStore, DropsWhatWasDamaged_BeforeOrAfterItWasOpened) {
  for (int round = 0; round < 12; round++) {
    bool open_before = random() % 2;
    options.identity = std::to_string(round);
    std::filesystem::remove_all(directory);
    restart();
    keep(counting(700), 1);
    keep(counting(900, 5000), 0);
    restart();
    if (!open_before) store.reset();
    std::vector<std::string> all = files();
    ASSERT_EQ(all.size(), 7u);
    bool noticed = false;
    for (auto times = 1 + random() % 3; times > 0; times--) {
      const std::string& path = all[random() % all.size()];
      noticed |= harm(random, path, read_file(path), read_file(all[random() % all.size()]));
      if (read_file(path).empty()) break;
    }
    if (!open_before) restart();
    run(counting(800), 0);  // run() compares every row that came back
    int32_t first = reused;
    run(counting(1000, 5000), 0);
    if (noticed) {
      EXPECT_LT(first + reused, 1600);
      EXPECT_GE(store->statistics().invalid, 1u);
    }
    // It goes on, and what was lost is stored again.
    keep(counting(800), 0);
    keep(counting(1000, 5000), 0);
    restart();
    run(counting(801));
    EXPECT_EQ(reused, 800);
    run(counting(1001, 5000));
    EXPECT_EQ(reused, 1000);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DamagedStore, testing::Range(1u, 6u));

using Disk = StoreTest;

TEST_F(Disk, RemovesRecordsOfAnotherFormat_AndNothingThatIsNotItsOwn) {
  restart();
  keep(counting(300));
  store.reset();
  std::string old = files()[0];
  {
    std::fstream file(old, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);
    file.put('\0');  // version 0
  }
  std::string name(64, 'a');
  for (const char* other : {"/notes.txt", "/abc.kv"}) std::ofstream(directory + other) << "not ours";
  std::ofstream(directory + "/" + name + ".kv") << "garbage";
  std::ofstream(directory + "/" + name + ".kv.tmp") << "left over";
  restart();
  EXPECT_GE(store->statistics().invalid, 2u);
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_FALSE(std::filesystem::exists(directory + "/" + name + ".kv"));
  EXPECT_FALSE(std::filesystem::exists(directory + "/" + name + ".kv.tmp"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/abc.kv"));
}

TEST_F(Disk, GoesOn_WhenFilesWereRemovedBehindItsBack) {
  restart();
  keep(counting(1000));
  restart();
  for (const std::string& path : files()) std::filesystem::remove(path);
  run(counting(1000));
  EXPECT_EQ(reused, 0);
  EXPECT_EQ(store->statistics().invalid, 4u);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("dropped"), std::string::npos);
}

TEST_F(Disk, RefusesADirectoryThatOthersCanWrite) {
  std::filesystem::create_directory(directory);
  std::filesystem::permissions(directory, std::filesystem::perms::all);
  KvWorld other(4);
  reader = Reader::create({}).value();
  options.directory = directory;
  auto opened = KvStore::open(options, *other.pool, *reader);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, "kv_store_open");
}

/// A limit on the size of files stands for a disk that is full.
class FullDisk : public StoreTest {
 protected:
  FullDisk() {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    options.clock = &clock_;
  }
  ~FullDisk() override { fill(false); }
  void fill(bool full) {
    rlimit limit = before_;
    if (full) limit.rlim_cur = 8192;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  /// As drain(), whose clock stands still here.
  void settle() {
    while (store->poll()) std::this_thread::yield();
  }
  ManualClock clock_;
  rlimit before_{};
};

TEST_F(FullDisk, DropsAndCounts_AndTriesAgainLater) {
  restart();
  fill(true);
  remember(*run(counting(1000)));
  settle();
  EXPECT_EQ(store->statistics().not_written, 4u);
  EXPECT_TRUE(store->statistics().failing);
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(tree->pages_idle(), 4u);
  remember(*run(counting(1000, 5000)));  // it rests
  settle();
  EXPECT_EQ(lines.size(), 1u);
  fill(false);
  clock_.advance_ns(60'000'000'000);
  remember(*run(counting(1000)));
  settle();
  EXPECT_EQ(files().size(), 4u);
  EXPECT_FALSE(store->statistics().failing);
  EXPECT_EQ(lines.size(), 2u);
}

/// A process that is killed after a step of a write.
class Killed : public StoreTest, public testing::WithParamInterface<int> {
 protected:
  [[noreturn]] void write_and_die(int second, int at) {
    KvWorld other(4);
    Conversation c(other, 4096);
    c.tokens = counting(400);
    c.forms.assign(400, 1);
    if (!c.sequence.extend(400).ok()) _exit(1);
    other.compute(c.sequence, c.tokens, c.forms, 0);
    StoreFiles writer = StoreFiles::open(directory, true).value();
    RecordHeader header;
    header.store = store_key("");
    header.parent = root_id(header.store, 0);
    header.bytes_per_token = 40;
    for (int record = 0; record < 2; record++) {
      if (record == second)
        writer.set_write_hook([at](int step) {
          if (step == at) raise(SIGKILL);
        });
      header.depth = static_cast<uint32_t>(record);
      header.count = record == 0 ? 256 : 144;
      for (uint32_t i = 0; i < header.count; i++) header.token[i] = static_cast<int32_t>(i) + record * 256;
      header.form.fill(1);
      header.id = record_id(header.parent, header.tokens(), header.forms());
      if (writer.write(header, other.layout, other.pool->page(c.sequence.pages()[static_cast<size_t>(record)])) != 0)
        _exit(2);
      header.parent = header.id;
    }
    _exit(3);
  }
};

TEST_P(Killed, LeavesWholeRecordsOrNone) {
  int second = GetParam() / 7, at = GetParam() % 7;
  pid_t child = fork();
  if (child == 0) write_and_die(second, at);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  restart();
  EXPECT_EQ(store->statistics().invalid, 0u);
  run(counting(500));
  EXPECT_EQ(reused, second == 0 ? (at >= 5 ? 256 : 0) : (at >= 5 ? 400 : 256));
  EXPECT_EQ(files().size(), store->statistics().records);
}

INSTANTIATE_TEST_SUITE_P(Steps, Killed, testing::Range(0, 14));

}  // namespace
}  // namespace llmd
