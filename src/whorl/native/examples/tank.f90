!> A simulator in Fortran with a known optimum: hold the level of a leaking tank at a set point by its inlet valve.
!>
!>     tank ipc:///home/me/s/tank.sock 8
!>     whorl train ppo ipc:///home/me/s/tank.sock --steps 60000 --set agent.learning_rate=0.001
!>
!> In a step the level changes by INFLOW * valve - LEAK * level, with the valve between 0 and 1, and the reward is minus
!> the distance from the set point. What comes nearest to it in each step is best over all of them: a level nearer to
!> the set point reaches it sooner and never later. So the best return from each beginning is known, and the metric
!> `regret` says by how much an episode missed it: 0 is optimal.
module tanks
    use, intrinsic :: iso_c_binding, only: c_double, c_float, c_int64_t
    implicit none

    real(c_double), parameter :: SET_POINT = 1, INFLOW = 0.4d0, LEAK = 0.1d0
    integer, parameter :: MOST_STEPS = 30

    type :: tank
        real(c_double) :: level, collected, best
        integer :: steps
    contains
        procedure :: reset
        procedure :: step
        procedure :: shown
    end type

contains

    subroutine reset(self, seed)
        class(tank), intent(inout) :: self
        integer(c_int64_t), intent(in) :: seed
        self%level = 2 * uniform(seed)
        self%best = best_return(self%level)
        self%collected = 0
        self%steps = 0
    end subroutine

    subroutine step(self, valve, reward, is_over)
        class(tank), intent(inout) :: self
        real(c_double), intent(in) :: valve
        real(c_double), intent(out) :: reward
        logical, intent(out) :: is_over
        self%level = after(self%level, valve)
        reward = -abs(self%level - SET_POINT)
        self%collected = self%collected + reward
        self%steps = self%steps + 1
        is_over = self%steps == MOST_STEPS
    end subroutine

    function shown(self) result(observation)
        class(tank), intent(in) :: self
        real(c_float) :: observation(2)
        observation = real([self%level - SET_POINT, dble(self%steps) / MOST_STEPS], c_float)
    end function

    pure function after(level, valve) result(next)
        real(c_double), intent(in) :: level, valve
        real(c_double) :: next
        next = level + INFLOW * min(max(valve, 0.0d0), 1.0d0) - LEAK * level
    end function

    !> Opens the valve each time so that the next level is as near to the set point as it can be.
    pure function best_return(first) result(total)
        real(c_double), intent(in) :: first
        real(c_double) :: total, level
        integer :: i
        level = first
        total = 0
        do i = 1, MOST_STEPS
            level = after(level, (SET_POINT - level + LEAK * level) / INFLOW)
            total = total - abs(level - SET_POINT)
        end do
    end function

    !> A number in [0, 1) from all bits of a seed.
    pure function uniform(seed) result(drawn)
        integer(c_int64_t), intent(in) :: seed
        real(c_double) :: drawn
        integer(c_int64_t) :: mixed
        integer :: i
        mixed = ieor(seed, 88172645463325252_c_int64_t)
        if (mixed == 0) mixed = 1
        do i = 1, 8   ! xorshift: shifts alone, so that no integer overflows
            mixed = ieor(mixed, ishft(mixed, 13))
            mixed = ieor(mixed, ishft(mixed, -7))
            mixed = ieor(mixed, ishft(mixed, 17))
        end do
        drawn = real(ishft(mixed, -11), c_double) / 2.0d0**53
    end function

end module

program serve_tanks
    use tanks
    use whorl
    implicit none
    type(tank), allocatable :: copies(:)
    type(whorl_server) :: server
    type(whorl_request) :: request
    real(c_double) :: reward
    logical :: is_over
    character(1000) :: word
    integer :: count

    if (command_argument_count() < 1) error stop "usage: tank ADDRESS [COPIES]"
    count = 8
    if (command_argument_count() > 1) then
        call get_command_argument(2, word)
        read (word, *) count
    end if
    call get_command_argument(1, word)

    allocate (copies(count))
    call server%open("Tank", observation_size=2, max_episode_steps=MOST_STEPS)
    call server%box(low=[0.0d0], high=[1.0d0])
    call server%metric("regret")
    call server%bind(trim(word), copies=count)
    print "(a, a)", "serving Tank at ", server%address()
    flush (6)

    do while (server%next(request))
        associate (one => copies(request%copy))
            reward = 0
            is_over = .false.
            select case (request%op)
            case (WHORL_RESET)
                call one%reset(request%seed)
            case (WHORL_STEP)
                call one%step(real(request%values(1), c_double), reward, is_over)
                if (is_over) call server%tell_metric(1, one%best - one%collected)
            end select
            call server%answer(one%shown(), reward, terminated=.false., truncated=is_over)
        end associate
    end do
    call server%close()
end program
