// Plays episodes of a served environment with a policy that Whorl has trained, in libtorch.
//
//     whorl export runs/ppo-CartPole-v1-1 --to torchscript
//     play_policy ipc:///home/me/s/env.sock runs/ppo-CartPole-v1-1/policy.pt 5
//
// The file takes the leaves of the observation in their order, [batch, ...] each, and gives the actions first. A policy
// with a memory takes and gives its state as well, which this example does not carry on.
#include "whorl.hpp"

#include <cstdlib>
#include <torch/script.h>

namespace {

torch::Tensor observed(const whorl::Client &env, std::size_t leaf) {
    const whorl::Leaf &about = env.spec().observation[leaf];
    std::vector<std::int64_t> shape = about.shape;
    shape.insert(shape.begin(), 1);
    if (about.kind == "discrete") return torch::full(shape, env.discrete(0, leaf), torch::kInt64);
    const void *data = about.kind == "image" ? static_cast<const void *>(env.image(0, leaf)) : env.vector(0, leaf);
    const auto dtype = about.kind == "image" ? torch::kUInt8 : torch::kFloat32;
    return torch::from_blob(const_cast<void *>(data), shape, dtype).clone();
}

void play(const std::string &address, const std::string &file, std::uint64_t episodes) {
    torch::InferenceMode inference;
    torch::jit::Module policy = torch::jit::load(file);
    whorl::Client env(address, 1);
    const bool is_box = env.spec().action.kind == "box";
    for (std::uint64_t seed = 0; seed < episodes; ++seed) {
        double total = 0;
        env.reset(0, seed);
        env.advance();
        std::printf("episode %llu actions", (unsigned long long)seed);
        while (!env.terminated(0) && !env.truncated(0)) {
            std::vector<torch::jit::IValue> inputs;
            for (std::size_t leaf = 0; leaf < env.spec().observation.size(); ++leaf)
                inputs.emplace_back(observed(env, leaf));
            const torch::Tensor action = policy.forward(inputs).toTuple()->elements()[0].toTensor().contiguous();
            const auto size = std::size_t(action.numel());
            if (is_box) env.step(0, action.data_ptr<float>(), size);
            else env.step(0, action.data_ptr<std::int64_t>(), size);
            for (std::size_t i = 0; i < size; ++i)
                std::printf(" %.9g", is_box ? action.data_ptr<float>()[i] : double(action.data_ptr<std::int64_t>()[i]));
            env.advance();
            if (env.failed(0)) throw whorl::Error(address + ": " + env.fault(0));
            total += env.reward(0);
        }
        std::printf(" return %.17g\n", total);
    }
}

} // namespace

int main(int count, char **words) {
    if (count < 3) {
        std::fprintf(stderr, "usage: play_policy ADDRESS POLICY.pt [EPISODES]\n");
        return 2;
    }
    try {
        play(words[1], words[2], count > 3 ? std::strtoull(words[3], nullptr, 10) : 5);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "play_policy: %s\n", error.what());
        return 1;
    }
}
