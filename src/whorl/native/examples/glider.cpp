// A simulator with a known optimum: a glider on rails, to be brought to rest at the origin in the fewest steps.
//
//     glider ipc:///home/me/s/glider.sock 8
//     whorl train ppo ipc:///home/me/s/glider.sock --steps 40000
//         (and --set agent.learning_rate=0.001 --set agent.entropy_coefficient=0.03, which finds the optimum)
//
// Place and speed are whole numbers. A step changes the speed by -1, 0 or 1, then the place by the speed; each costs 1.
// The rails end in bumpers, which stop a glider and are of no help on its way.
// In n steps that begin and end at rest a glider comes n * n / 4 far at most, so the least number of steps from a
// distance d is the smallest n with n * n / 4 >= d (rounded down), and the best return is -n. The metric `excess` says
// how many steps more than that an episode took: 0 is optimal.
#include "whorl.hpp"

#include <cstdlib>

namespace {

constexpr int FARTHEST = 6;
constexpr int MOST_STEPS = 40;

int fewest_steps(int distance) {
    int steps = 0;
    while (steps * steps / 4 < distance) ++steps;
    return steps;
}

// A good mix of all bits of a seed; the same on every machine, unlike the distributions of <random>.
std::uint64_t mixed(std::uint64_t seed) {
    seed += 0x9e3779b97f4a7c15u;
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
    return seed ^ (seed >> 31);
}

class Glider : public whorl::Simulator {
  public:
    void reset(std::uint64_t seed, whorl::Outcome &outcome) override {
        const std::uint64_t drawn = mixed(seed);
        place_ = 1 + int(drawn % FARTHEST);
        best_ = fewest_steps(place_);
        if (drawn >> 63) place_ = -place_;
        speed_ = steps_ = 0;
        show(outcome);
    }

    void step(const whorl::Action &action, whorl::Outcome &outcome) override {
        speed_ += int(action.choice()) - 1;
        place_ += speed_;
        if (std::abs(place_) > FARTHEST) {
            place_ = place_ > 0 ? FARTHEST : -FARTHEST;
            speed_ = 0;
        }
        ++steps_;
        outcome.reward = -1;
        outcome.terminated = place_ == 0 && speed_ == 0;
        outcome.truncated = !outcome.terminated && steps_ == MOST_STEPS;
        if (outcome.terminated || outcome.truncated) outcome.metrics[0] = steps_ - best_;
        show(outcome);
    }

  private:
    void show(whorl::Outcome &outcome) const {
        outcome.vector()[0] = float(place_) / FARTHEST;
        outcome.vector()[1] = float(speed_) / 3;
    }

    int place_ = 0, speed_ = 0, steps_ = 0, best_ = 0;
};

} // namespace

int main(int count, char **words) {
    if (count < 2) {
        std::fprintf(stderr, "usage: glider ADDRESS [COPIES] [KEYS]\n");
        return 2;
    }
    whorl::Spec spec;
    spec.name = "Glider";
    spec.observation = {whorl::vector_leaf({2})};
    spec.action = whorl::discrete(3);
    spec.max_episode_steps = MOST_STEPS;
    spec.episode_metrics = {"excess"};
    whorl::ServerOptions options;
    if (count > 3) options.keys = words[3];
    try {
        const std::size_t copies = count > 2 ? std::strtoul(words[2], nullptr, 10) : 8;
        whorl::serve(words[1], copies, spec, [] { return std::make_unique<Glider>(); }, options);
    } catch (const whorl::Error &error) {
        std::fprintf(stderr, "glider: %s\n", error.what());
        return 1;
    }
}
