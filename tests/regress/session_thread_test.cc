// The http-prepare thread kept a reference to the session it had prepared a request for; when the answer was over
// before that was gone, the session was destroyed there, beside the http thread: a race, which ThreadSanitizer sees.
#include <string>

#include "../api/server_fixture.h"

namespace llmd::test {
namespace {

class SessionThread : public ServerTest {};

TEST_F(SessionThread, SessionsEndOnTheHttpThread_HoweverShortTheAnswer) {
  start();
  engine_.refuse(client_error("queue_full", "The queue is full."));
  for (int round = 0; round < 300; round++) ASSERT_EQ(exchange(post(chat())).status, 429);
}

}  // namespace
}  // namespace llmd::test
