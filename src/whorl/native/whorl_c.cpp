// whorl.h by whorl.hpp: no exception leaves, and every misuse is an error code with words.
#include "whorl.h"

#include "whorl.hpp"

struct whorl_server {
    whorl::Spec spec;
    bool has_action = false;
    std::unique_ptr<whorl::Server> server;
    whorl::Task task;
    bool has_task = false;
    std::string error;
};

namespace {

// Runs `work`, which returns 0 or more; -1 and words when it throws.
template <class Work> int guarded(whorl_server *server, const Work &work) {
    if (server == nullptr) return -1;
    try {
        const int done = work();
        server->error.clear();
        return done;
    } catch (const std::exception &error) {
        server->error = error.what();
    } catch (...) {
        server->error = "something that is no std::exception was thrown";
    }
    return -1;
}

whorl::Server &bound(whorl_server *server) {
    if (!server->server) throw whorl::Error("whorl_bind comes first");
    return *server->server;
}

void needs_task(const whorl_server *server) {
    if (!server->has_task) throw whorl::Error("there is no request to answer: whorl_next comes first");
}

void unbound(const whorl_server *server) {
    if (server->server) throw whorl::Error("the environment is served already: describe it before whorl_bind");
}

} // namespace

extern "C" {

whorl_server *whorl_open(const char *name, int32_t observation_size, int64_t max_episode_steps) {
    try {
        auto server = std::make_unique<whorl_server>();
        server->spec.name = name;
        server->spec.observation = {whorl::vector_leaf({observation_size})};
        server->spec.max_episode_steps = max_episode_steps;
        return server.release();
    } catch (...) {
        return nullptr; // out of memory
    }
}

int whorl_choices(whorl_server *server, int64_t n) {
    return guarded(server, [=] {
        unbound(server);
        server->spec.action = whorl::discrete(n);
        server->has_action = true;
        return 0;
    });
}

int whorl_box(whorl_server *server, int32_t size, const double *low, const double *high) {
    return guarded(server, [=] {
        unbound(server);
        if (size < 1) throw whorl::Error("an action has one float at least");
        server->spec.action = whorl::box({low, low + size}, {high, high + size});
        server->has_action = true;
        return 0;
    });
}

int whorl_add_metric(whorl_server *server, const char *name) {
    return guarded(server, [=] {
        unbound(server);
        server->spec.episode_metrics.emplace_back(name);
        return 0;
    });
}

int whorl_not_repeatable(whorl_server *server) {
    return guarded(server, [=] {
        unbound(server);
        server->spec.replay = false;
        return 0;
    });
}

int whorl_bind(whorl_server *server, const char *address, int32_t copies, const char *keys, int insecure) {
    return guarded(server, [=] {
        unbound(server);
        if (!server->has_action) throw whorl::Error("say what a step takes first: whorl_choices or whorl_box");
        whorl::ServerOptions options;
        options.keys = keys;
        options.insecure = insecure != 0;
        const std::size_t count = copies < 1 ? 0 : std::size_t(copies);
        server->server = std::make_unique<whorl::Server>(address, count, server->spec, options);
        return 0;
    });
}

const char *whorl_address(whorl_server *server) {
    return server != nullptr && server->server ? server->server->address().c_str() : "";
}

int whorl_next(whorl_server *server, whorl_request *request) {
    return guarded(server, [=] {
        if (server->has_task) throw whorl::Error("the last request was not answered: whorl_answer or whorl_fail");
        if (!bound(server).next(server->task)) return 0;
        server->has_task = true;
        request->op = server->task.is_reset ? WHORL_RESET : WHORL_STEP;
        request->copy = int32_t(server->task.copy);
        request->seed = server->task.seed;
        return 1;
    });
}

int64_t whorl_action_choice(whorl_server *server) {
    const bool is_there = server != nullptr && server->has_task && server->task.action.choices != nullptr;
    return is_there ? server->task.action.choice() : -1;
}

float whorl_action_value(whorl_server *server, int32_t index) {
    const bool is_there = server != nullptr && server->has_task && server->task.action.values != nullptr &&
                          index >= 0 && std::size_t(index) < server->spec.action.low.size();
    return is_there ? server->task.action.values[index] : std::nanf("");
}

int whorl_tell_metric(whorl_server *server, int32_t index, double value) {
    return guarded(server, [=] {
        needs_task(server);
        if (index < 0 || std::size_t(index) >= server->spec.episode_metrics.size())
            throw whorl::Error("there is no metric " + std::to_string(index));
        server->server->outcome().metrics[index] = value;
        return 0;
    });
}

int whorl_answer(whorl_server *server, const float *observation, double reward, int terminated, int truncated) {
    return guarded(server, [=] {
        needs_task(server);
        whorl::Outcome &outcome = server->server->outcome();
        std::copy(observation, observation + server->spec.observation[0].shape[0], outcome.vector());
        outcome.reward = reward;
        outcome.terminated = terminated != 0;
        outcome.truncated = truncated != 0;
        server->has_task = false;
        server->server->done();
        return 0;
    });
}

int whorl_fail(whorl_server *server, const char *why) {
    return guarded(server, [=] {
        needs_task(server);
        server->has_task = false;
        server->server->failed(why);
        return 0;
    });
}

const char *whorl_error(whorl_server *server) {
    return server == nullptr ? "out of memory" : server->error.c_str();
}

void whorl_close(whorl_server *server) {
    delete server;
}

} // extern "C"
