// Plays episodes of a served environment with random choices, several at a time, and prints what each was worth.
//
//     whorl env serve CartPole-v1 --bind ipc:///home/me/s/env.sock
//     play ipc:///home/me/s/env.sock 20 4             (episodes, lanes)
//
// Episode i has the seed i, and its choices follow from i alone, so every run prints the same.
#include "whorl.hpp"

#include <cstdlib>

namespace {

// A random number that follows from an episode and a step of it.
std::uint64_t drawn(std::uint64_t episode, std::uint64_t step) {
    std::uint64_t mixed = episode * 1000003u + step + 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

struct Episode {
    std::uint64_t seed = 0, steps = 0;
    double total = 0;
    bool is_under_way = false;
};

void play(const std::string &address, std::uint64_t episodes, std::size_t lanes, const std::string &keys) {
    whorl::ClientOptions options;
    options.keys = keys;
    whorl::Client env(address, lanes, options);
    if (env.spec().action.kind != "discrete") throw whorl::Error(address + ": this example makes discrete choices");
    const auto choices = std::uint64_t(env.spec().action.nvec[0]);
    std::vector<Episode> played(lanes);
    for (std::uint64_t begun = 0, ended = 0; ended < episodes;) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            Episode &episode = played[lane];
            if (episode.is_under_way) {
                env.step(lane, std::int64_t(drawn(episode.seed, episode.steps++) % choices));
            } else if (begun < episodes) {
                episode = Episode();
                episode.seed = begun++;
                episode.is_under_way = true;
                env.reset(lane, episode.seed);
            }
        }
        env.advance();
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            Episode &episode = played[lane];
            if (!episode.is_under_way) continue;
            if (env.failed(lane)) throw whorl::Error(address + ": " + env.fault(lane));
            episode.total += env.reward(lane);
            if (env.terminated(lane) || env.truncated(lane)) {
                std::printf("episode %llu return %.17g steps %llu\n", (unsigned long long)episode.seed, episode.total,
                            (unsigned long long)episode.steps);
                episode.is_under_way = false;
                ++ended;
            }
        }
        std::fflush(stdout);
    }
}

} // namespace

int main(int count, char **words) {
    if (count < 2) {
        std::fprintf(stderr, "usage: play ADDRESS [EPISODES] [LANES] [KEYS]\n");
        return 2;
    }
    try {
        play(words[1], count > 2 ? std::strtoull(words[2], nullptr, 10) : 20,
             count > 3 ? std::strtoul(words[3], nullptr, 10) : 4, count > 4 ? words[4] : "");
    } catch (const whorl::Error &error) {
        std::fprintf(stderr, "play: %s\n", error.what());
        return 1;
    }
}
