// A timeline for tests: two processes, a table of what was sent, no simulation.
#include <stdint.h>

enum { READ_PS = 20000, MESSAGE_PS = 3000000 };

struct shared; // in memory that both processes map
struct shared *make_shared(void);
void attach(struct shared *, int me);
uint64_t clock_of(struct shared *, int who);
// What was received that nobody had sent, waits that have not ended, waits in all.
int lost(struct shared *), open_waits(struct shared *), waits(struct shared *);
// The library's own reading of CLOCK_MONOTONIC: the machine's.
uint64_t library_ns(void);

extern volatile char *card_writes;  // what memory_wait changes
extern uint64_t memory_waits;
extern uint64_t spends;             // calls of spend
