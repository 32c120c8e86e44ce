/* A simulator as a served environment, from C, Fortran or any language that calls C: compile whorl_c.cpp beside it.
 *
 * The simulator owns its loop. It opens a server, then asks what to do, does it, and answers, until it is told to stop:
 *
 *     whorl_server *server = whorl_open("Tank", 2, 100);
 *     whorl_choices(server, 3);
 *     whorl_bind(server, "ipc:///home/me/s/tank.sock", 8, "", 0);
 *     while (whorl_next(server, &request) == 1) {
 *         ... reset or step copy request.copy; whorl_action_choice(server) says what to do ...
 *         whorl_answer(server, observation, reward, terminated, truncated);
 *     }
 *     whorl_close(server);
 *
 * An observation is one vector of floats here, and an action one choice or a vector of floats; whorl.hpp has the rest.
 * Functions that return int give a negative number when something is wrong, and whorl_error says what.
 */
#ifndef WHORL_H
#define WHORL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct whorl_server whorl_server;

enum { WHORL_STEP = 1, WHORL_RESET = 2 };

typedef struct {
    int32_t op;    /* WHORL_RESET or WHORL_STEP */
    int32_t copy;  /* which of the simulator's copies, from 0 */
    uint64_t seed; /* of a reset: all randomness of the episode must come from it */
} whorl_request;

/* Describe the environment: its name, the length of an observation, how many steps an episode has at most. */
whorl_server *whorl_open(const char *name, int32_t observation_size, int64_t max_episode_steps);
/* What a step takes: one of n choices, or `size` floats within bounds. One of the two, once. */
int whorl_choices(whorl_server *server, int64_t n);
int whorl_box(whorl_server *server, int32_t size, const double *low, const double *high);
/* A number that is told when an episode ends; in the order of these calls. */
int whorl_add_metric(whorl_server *server, const char *name);
/* The same seed and actions do not lead to the same observations: episodes cannot be stepped again after a restart. */
int whorl_not_repeatable(whorl_server *server);
/* Serve at most so many copies at tcp://HOST:PORT or ipc://PATH. `keys`: a folder with keys, or "". */
int whorl_bind(whorl_server *server, const char *address, int32_t copies, const char *keys, int insecure);
/* Where it is served: the port is known by now. */
const char *whorl_address(whorl_server *server);

/* Waits for something to do. 1: here it is. 0: told to stop, by SIGTERM or Ctrl-C. */
int whorl_next(whorl_server *server, whorl_request *request);
/* Of the step at hand: the choice (from 0), or one of the floats. */
int64_t whorl_action_choice(whorl_server *server);
float whorl_action_value(whorl_server *server, int32_t index);
/* Of the step at hand, before it is answered: a metric of the episode that it ends (index from 0). */
int whorl_tell_metric(whorl_server *server, int32_t index, double value);
/* The request at hand is done: what the copy shows now, and of a step, what came of it. */
int whorl_answer(whorl_server *server, const float *observation, double reward, int terminated, int truncated);
/* The request at hand could not be done; its copy will be reset. */
int whorl_fail(whorl_server *server, const char *why);

/* What went wrong last; "" when nothing did. */
const char *whorl_error(whorl_server *server);
void whorl_close(whorl_server *server);

#ifdef __cplusplus
}
#endif

#endif
