"""Every setting of a run, as frozen dataclasses. A field's docstring is its help and its reference page.

The layers, later over earlier: defaults here, what an alias means, the preset for (agent, environment), a TOML file,
flags, ``--set``.
The resolved ``Config`` is written to the run directory and reproduces the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from whorl.config.bounds import AtLeast, AtMost, MoreThan


@dataclass(frozen=True)
class EnvConfig:
    """What is acted on."""

    id: str = "CartPole-v1"
    """A Gymnasium id, ``module:Env-v0`` to import a module that registers it, or the address of a server of
    environments: ``tcp://HOST:PORT``, ``ipc://PATH``."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment: ``--set env.kwargs.gravity=9.8``. A served one takes ``keys`` (a folder)
    and ``patience_s`` (how long to wait for an answer)."""
    hosting: Literal["auto", "inside", "process"] = "auto"
    """Where an environment lives: inside its actor, or in a light process of its own, which may be slow, hang or crash
    without hurting its neighbours. ``auto`` measures a few steps and gives slow ones (over ``slow_step_s``) a process;
    a served one lives elsewhere already, and its actor steps all its copies with one message.
    The result of training is the same in workflows that are exact; in others, environments with a process may have
    trajectories of their own, and the resolved config says what was chosen."""
    slow_step_s: Annotated[float, MoreThan(0)] = 0.002
    """Steps longer than this count as slow for ``hosting = "auto"``."""
    restore: Literal["auto", "snapshot", "replay", "none"] = "auto"
    """How a lost environment comes back: from its own snapshot, by stepping its actions again, or as a new episode (for
    simulators too slow to step again; the run then says ``exact: false``). ``auto``: snapshot where
    offered, else replay."""
    max_episode_steps: Annotated[int, AtLeast(1)] = 100_000
    """Episodes are truncated here, whatever the environment says."""
    step_timeout_s: Annotated[float, AtLeast(0), AtMost(1e8)] = 0.0
    """An environment step or reset that takes longer is a hang, and its process is replaced (``inline`` has none: where
    a limit is given, ``local`` is chosen). 0: learnt from the observed step times (300 s until 20 steps have been seen,
    then 20 times the longest seen, at least 10 s)."""
    max_observation_bytes: Annotated[int, AtLeast(1)] = 64 * 1024 * 1024
    """A larger observation is refused."""
    autoreset: Literal["auto", "next_step", "same_step", "disabled"] = "auto"
    """Which autoreset mode to ask of a vector form; all give the same rows."""


@dataclass(frozen=True)
class WorkflowConfig:
    """Who acts, who learns, and who waits for whom."""

    name: str = ""
    """``sync``, ``overlap``, ``async``, ``window``, ``queue``, ``seed``, ``replay``, ``allreduce``, ``gradients``, or
    one of another package: its name, or ``module:NAME``. Empty: the agent's default."""
    trajectories_per_update: Annotated[int, AtLeast(0)] = 0
    """Trajectories that an update learns from, over all learners; 0: as many as there are actors (or slow environments
    that have trajectories of their own). ``async`` takes them as they come; in ``sync`` and ``overlap`` it is always
    one of each actor."""
    max_staleness: Annotated[int, AtLeast(0)] | None = None
    """Trajectories that are more than this many updates old are dropped, and counted. Empty: none is too old."""
    replay_shards: Annotated[int, AtLeast(0)] = 0
    """``replay``: processes that the memory is shared out over; each takes the trajectories of actors of its own. 0:
    one for every 8 actors."""
    samples_per_insert: Annotated[float, AtLeast(0)] | None = None
    """``replay``: how often an env step is drawn, on average (with an LSTM: sequences drawn for each env step).
    Learners and actors wait for each other to keep it. Empty: as often as in ``sync``. 0: nobody waits."""
    exploration_ladder: Annotated[float, AtLeast(0)] = 7.0
    """``replay``: lane i of N explores with the agent's epsilon to the power of 1 + i * this / (N - 1), so that some
    explore and others do nearly their best. 0: all the same. For agents with an epsilon."""
    postprocess: Literal["actor", "ranks"] = "actor"
    """``replay``: where the targets and priorities of a new trajectory are computed: by its ``actor``, or shared out by
    lanes over the ``ranks`` of its environments (``--ranks-per-env``), which are idle meanwhile. The numbers are the
    same."""
    publish_every: Annotated[int, AtLeast(1)] = 1
    """Updates between two versions of the weights that actors are shown. More than 1 spares transfers of large weights,
    or forces staleness, to see what an agent bears."""
    accept_stale: bool = False
    """Have an agent that learns from fresh data only run on stale data all the same, uncorrected: for comparisons."""
    choice: Literal["random", "owned"] = "owned"
    """Whose windows a learner reads in ``window``: ``random`` ones among those of all actors, or those of its ``owned``
    actors. Several learners that choose at random read some trajectories twice."""
    max_reuse: Annotated[int, AtLeast(1)] = 1
    """How often a learner may learn from the same trajectory in ``window``; it then waits for a newer one. 1: never
    twice."""
    slots: Annotated[int, AtLeast(0), AtMost(128)] = 0
    """Trajectories that each actor's queue holds in ``queue``, the one being collected and those being learnt from
    included; when all are taken, the actor waits. For each environment where those have trajectories of their own. 0:
    3, or more where an update takes more."""


@dataclass(frozen=True)
class EngineConfig:
    """Where the processes live."""

    name: str = ""
    """``inline`` (one thread, one process), ``local`` (a process per role), ``mpi`` (a rank per role) or ``ray`` (on
    the nodes of a Ray cluster). Empty: mpi under ``mpiexec`` or ``srun``, else inline for one actor and one learner
    with fast environments in ``sync``, else local."""
    patience_s: Annotated[float, MoreThan(0), AtMost(1e8)] = 3600.0
    """No wait lasts longer; its expiry ends the run and names who was waited for."""
    response_s: Annotated[float, MoreThan(0), AtMost(1e8)] = 10.0
    """A role that is waited for, is not inside a step with a deadline of its own and does not answer for this long is
    lost, and is replaced. So is one whose process is stopped (SIGSTOP) for this long."""
    max_restarts: Annotated[int, AtLeast(0)] = 1000
    """Restarts in all before the run gives up."""
    max_restarts_without_progress: Annotated[int, AtLeast(1)] = 5
    """Restarts of one role without a new update before the run gives up."""
    mpi: Literal["auto", "mpich", "openmpi"] = "auto"
    """Which MPI is started where both are installed and no launcher has started one. ``auto``: MPICH, which starts
    sooner."""
    one_sided: Literal["auto", "always", "never"] = "auto"
    """Whether ranks of one node reach into each other's memory on ``mpi``. ``auto`` measures at the start whether that
    works while the other one is busy; if not, everything goes by messages, and the run says so."""
    ulfm: bool = False
    """Have a run on ``mpi`` live on when ranks of actors are lost, with the actors that are left: on one machine, with
    Open MPI, in every workflow that has actors. Everything then goes by messages."""
    address: str = ""
    """``ray``: the cluster to join, ``HOST:PORT`` of its head. Empty: a private one on this machine, which ends with
    the run."""
    token_file: str = ""
    """``ray``: the file with the token of the cluster that is joined, readable by its owner alone. Empty: where Ray
    looks (``RAY_AUTH_TOKEN_PATH``, or ``~/.ray/auth_token``)."""
    placement: Literal["spread", "pack"] = "spread"
    """``ray``: actors and learners over as many nodes as there are, or on as few as have room."""
    actor_resources: dict[str, Any] = field(default_factory=dict)
    """``ray``: custom resources that each actor asks for: ``--set engine.actor_resources.bigmem=1``."""
    learner_resources: dict[str, Any] = field(default_factory=dict)
    """``ray``: custom resources that each learner asks for."""
    pin: bool = False
    """``ray``: keep each actor, with its environments, and each learner to cores that nothing else of Whorl uses on its
    machine: as many as it has whole CPUs. Where there are too few, the run says so and goes on without."""


@dataclass(frozen=True)
class Resources:
    """How much of everything; the same words on every engine."""

    actors: Annotated[int, AtLeast(1)] = 1
    """Actors: processes that act. At most, where a schedule or ``whorl resize`` says that fewer do."""
    actors_schedule: str = ""
    """How many actors act from which environment step on: ``"0:8,50000:4,100000:2"``. In exact workflows the
    environments stay and are shared out anew, so that the result is the same; in the others an actor comes and goes
    with its environments."""
    envs_per_actor: Annotated[int, AtLeast(1)] = 8
    """Environments (lanes) of each actor."""
    ranks_per_env: Annotated[int, AtLeast(1)] = 1
    """MPI ranks that step each environment together: its actor's, and so many less one behind it, which all the
    environments of an actor share. For environments that are made for it, on the engine ``mpi``."""
    learners: Annotated[int, AtLeast(1)] = 1
    """Learners; each takes the trajectories of its own actors, and gradients are summed in a fixed order."""
    shards: Annotated[int, AtLeast(0)] = 0
    """Parts a batch is cut into; results depend on it and not on the number of learners. 0: as many as learners."""
    learner_threads: Annotated[int, AtLeast(1), AtMost(1024)] = 1
    """Threads of each learner. Small networks are fastest with one. Results depend on it in the last bits."""
    device: str = "cpu"
    """Where learners compute: ``cpu``, ``cuda``, ``cuda:1``."""
    cpus_per_actor: Annotated[float, MoreThan(0)] = 1.0
    """CPUs set aside for each actor, on the engine ``ray``."""
    gpus_per_actor: Annotated[float, AtLeast(0)] = 0.0
    """GPUs set aside for each actor, on the engine ``ray``."""


@dataclass(frozen=True)
class RunConfig:
    """How long, from which seed, and what is kept."""

    steps: Annotated[int, AtLeast(1)] = 100_000
    """Environment steps to train for; the run ends with the update that reaches them."""
    seed: Annotated[int, AtLeast(0)] = 1
    """Everything random follows from this."""
    stop_return: float | None = None
    """End early when the mean return of the last 100 episodes reaches this."""
    checkpoint_every_s: Annotated[float, AtLeast(0)] = 60.0
    """Seconds between checkpoints, taken between updates. 0: after every update."""
    keep_checkpoints: Annotated[int, AtLeast(1)] = 3
    """Older ones are removed once a newer one has been verified."""
    stop_before_s: Annotated[float, AtLeast(0)] = 60.0
    """In a batch job: so long before its end the run is saved and stops with exit code 75 (in a short job, when a
    quarter of its time is left)."""
    record_schedule: bool = False
    """Write down which trajectories each update of an asynchronous run learnt from (``async``), so that it can be
    repeated bit for bit."""
    replay_schedule: str = ""
    """A run directory with a recorded schedule: repeat that run, on the inline engine, from its own ``config.toml``."""
    tensorboard: bool = False
    """Also write TensorBoard event files (needs ``whorl[tensorboard]``)."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """In which numbers learners and actors run images through their convolutions (actors in float32 where the learner
    is on a GPU); weights, optimiser and everything else are always float32. ``auto`` takes bfloat16 where the processor
    or GPU computes with it and float32 where it would only be emulated, which is slower. The resolved config says
    which. Results depend on it."""
    compile: bool = False
    """Compile the learner's step with torch.compile: of networks with images, and of others on a GPU (not the network
    of an LSTM, and nothing of ``ddpg``, ``td3`` and ``sac``). It takes some seconds at the start, which are left out of
    rates. Measure whether it is faster: without a GPU it may be slower. Needs a C++ compiler. Results differ in the
    last bits."""


@dataclass(frozen=True)
class Config:
    """A run, fully resolved."""

    agent_name: str
    """Which agent; ``[agent] name`` in a file."""
    agent: Any
    """The agent's own settings: see the page of each agent."""
    env: EnvConfig = field(default_factory=EnvConfig)
    workflow: WorkflowConfig = field(default_factory=WorkflowConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    resources: Resources = field(default_factory=Resources)
    run: RunConfig = field(default_factory=RunConfig)
