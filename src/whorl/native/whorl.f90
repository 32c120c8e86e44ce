!> A simulator in Fortran as a served environment: compile this beside whorl_c.cpp, and link with libzmq.
!>
!>     type(whorl_server) :: server
!>     type(whorl_request) :: request
!>
!>     call server%open("Tank", observation_size=2, max_episode_steps=30)
!>     call server%box(low=[0.0d0], high=[1.0d0])            ! or: call server%choices(3)
!>     call server%bind("ipc:///home/me/s/tank.sock", copies=8)
!>     do while (server%next(request))
!>         select case (request%op)
!>         case (WHORL_RESET)     ! begin an episode of copy request%copy (1 to copies) from request%seed
!>         case (WHORL_STEP)      ! step it by request%choice (0 to n - 1) or request%values
!>         end select
!>         call server%answer(observation, reward, terminated, truncated)
!>     end do
!>     call server%close()
!>
!> What cannot be (an address that is taken, an answer without a request) ends the program with one line.
module whorl
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit
    implicit none
    private
    public :: whorl_server, whorl_request, WHORL_STEP, WHORL_RESET

    integer, parameter :: WHORL_STEP = 1, WHORL_RESET = 2

    !> Something to do for one copy of the simulator.
    type :: whorl_request
        integer :: op = 0
        integer :: copy = 0                       !< from 1
        integer(c_int64_t) :: seed = 0            !< of a reset; any bits, so it may be negative
        integer(c_int64_t) :: choice = -1         !< of a step, from 0
        real(c_float), allocatable :: values(:)   !< of a step with a box
    end type

    type :: whorl_server
        type(c_ptr), private :: handle = c_null_ptr
        integer, private :: observation_size = 0, box_size = 0
    contains
        procedure :: open => open_server
        procedure :: choices => set_choices
        procedure :: box => set_box
        procedure :: metric => add_metric
        procedure :: not_repeatable => set_not_repeatable
        procedure :: bind => bind_server
        procedure :: address => server_address
        procedure :: next => next_request
        procedure :: tell_metric => tell_a_metric
        procedure :: answer => answer_request
        procedure :: fail => fail_request
        procedure :: close => close_server
    end type

    type, bind(c) :: c_request
        integer(c_int32_t) :: op, copy
        integer(c_int64_t) :: seed
    end type

    interface
        function c_open(name, observation_size, max_episode_steps) bind(c, name="whorl_open") result(handle)
            import
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int32_t), value :: observation_size
            integer(c_int64_t), value :: max_episode_steps
            type(c_ptr) :: handle
        end function
        function c_choices(handle, n) bind(c, name="whorl_choices") result(code)
            import
            type(c_ptr), value :: handle
            integer(c_int64_t), value :: n
            integer(c_int) :: code
        end function
        function c_box(handle, size, low, high) bind(c, name="whorl_box") result(code)
            import
            type(c_ptr), value :: handle
            integer(c_int32_t), value :: size
            real(c_double), intent(in) :: low(*), high(*)
            integer(c_int) :: code
        end function
        function c_add_metric(handle, name) bind(c, name="whorl_add_metric") result(code)
            import
            type(c_ptr), value :: handle
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int) :: code
        end function
        function c_not_repeatable(handle) bind(c, name="whorl_not_repeatable") result(code)
            import
            type(c_ptr), value :: handle
            integer(c_int) :: code
        end function
        function c_bind(handle, address, copies, keys, insecure) bind(c, name="whorl_bind") result(code)
            import
            type(c_ptr), value :: handle
            character(kind=c_char), intent(in) :: address(*), keys(*)
            integer(c_int32_t), value :: copies
            integer(c_int), value :: insecure
            integer(c_int) :: code
        end function
        function c_address(handle) bind(c, name="whorl_address") result(text)
            import
            type(c_ptr), value :: handle
            type(c_ptr) :: text
        end function
        function c_next(handle, request) bind(c, name="whorl_next") result(code)
            import
            type(c_ptr), value :: handle
            type(c_request), intent(out) :: request
            integer(c_int) :: code
        end function
        function c_action_choice(handle) bind(c, name="whorl_action_choice") result(choice)
            import
            type(c_ptr), value :: handle
            integer(c_int64_t) :: choice
        end function
        function c_action_value(handle, index) bind(c, name="whorl_action_value") result(chosen)
            import
            type(c_ptr), value :: handle
            integer(c_int32_t), value :: index
            real(c_float) :: chosen
        end function
        function c_tell_metric(handle, index, told) bind(c, name="whorl_tell_metric") result(code)
            import
            type(c_ptr), value :: handle
            integer(c_int32_t), value :: index
            real(c_double), value :: told
            integer(c_int) :: code
        end function
        function c_answer(handle, observation, reward, terminated, truncated) bind(c, name="whorl_answer") result(code)
            import
            type(c_ptr), value :: handle
            real(c_float), intent(in) :: observation(*)
            real(c_double), value :: reward
            integer(c_int), value :: terminated, truncated
            integer(c_int) :: code
        end function
        function c_fail(handle, why) bind(c, name="whorl_fail") result(code)
            import
            type(c_ptr), value :: handle
            character(kind=c_char), intent(in) :: why(*)
            integer(c_int) :: code
        end function
        function c_error(handle) bind(c, name="whorl_error") result(text)
            import
            type(c_ptr), value :: handle
            type(c_ptr) :: text
        end function
        subroutine c_close(handle) bind(c, name="whorl_close")
            import
            type(c_ptr), value :: handle
        end subroutine
        function c_strlen(text) bind(c, name="strlen") result(length)
            import
            type(c_ptr), value :: text
            integer(c_size_t) :: length
        end function
    end interface

contains

    !> Describe the environment: its name, the length of an observation, how many steps an episode has at most.
    subroutine open_server(self, name, observation_size, max_episode_steps)
        class(whorl_server), intent(inout) :: self
        character(*), intent(in) :: name
        integer, intent(in) :: observation_size, max_episode_steps
        self%observation_size = observation_size
        self%handle = c_open(name // c_null_char, int(observation_size, c_int32_t), int(max_episode_steps, c_int64_t))
    end subroutine

    !> A step takes one of n choices.
    subroutine set_choices(self, n)
        class(whorl_server), intent(inout) :: self
        integer, intent(in) :: n
        call check(self, c_choices(self%handle, int(n, c_int64_t)))
    end subroutine

    !> A step takes a vector of floats within bounds.
    subroutine set_box(self, low, high)
        class(whorl_server), intent(inout) :: self
        real(c_double), intent(in) :: low(:), high(:)
        if (size(low) /= size(high)) error stop "whorl: a box has as many lower bounds as upper ones"
        self%box_size = size(low)
        call check(self, c_box(self%handle, int(size(low), c_int32_t), low, high))
    end subroutine

    !> A number that is told when an episode ends; counted from 1 in the order of these calls.
    subroutine add_metric(self, name)
        class(whorl_server), intent(inout) :: self
        character(*), intent(in) :: name
        call check(self, c_add_metric(self%handle, name // c_null_char))
    end subroutine

    !> The same seed and actions do not lead to the same observations.
    subroutine set_not_repeatable(self)
        class(whorl_server), intent(inout) :: self
        call check(self, c_not_repeatable(self%handle))
    end subroutine

    !> Serve at most so many copies at tcp://HOST:PORT or ipc://PATH.
    subroutine bind_server(self, address, copies, keys, insecure)
        class(whorl_server), intent(inout) :: self
        character(*), intent(in) :: address
        integer, intent(in) :: copies
        character(*), intent(in), optional :: keys
        logical, intent(in), optional :: insecure
        character(:), allocatable :: folder
        logical :: is_insecure
        folder = ""
        if (present(keys)) folder = keys
        is_insecure = .false.
        if (present(insecure)) is_insecure = insecure
        call check(self, c_bind(self%handle, address // c_null_char, int(copies, c_int32_t), folder // c_null_char, &
                                merge(1_c_int, 0_c_int, is_insecure)))
    end subroutine

    !> Where it is served.
    function server_address(self) result(text)
        class(whorl_server), intent(in) :: self
        character(:), allocatable :: text
        text = text_at(c_address(self%handle))
    end function

    !> Waits for something to do; false when told to stop, by SIGTERM or Ctrl-C.
    function next_request(self, request) result(is_there)
        class(whorl_server), intent(inout) :: self
        type(whorl_request), intent(inout) :: request
        logical :: is_there
        type(c_request) :: found
        integer(c_int) :: code
        integer :: i
        code = c_next(self%handle, found)
        call check(self, code)
        is_there = code == 1
        if (.not. is_there) return
        request%op = found%op
        request%copy = found%copy + 1
        request%seed = found%seed
        request%choice = c_action_choice(self%handle)
        if (.not. allocated(request%values)) allocate (request%values(self%box_size))
        do i = 1, self%box_size
            request%values(i) = c_action_value(self%handle, int(i - 1, c_int32_t))
        end do
    end function

    !> A metric of the episode that the step at hand ends; before it is answered.
    subroutine tell_a_metric(self, index, told)
        class(whorl_server), intent(inout) :: self
        integer, intent(in) :: index
        real(c_double), intent(in) :: told
        call check(self, c_tell_metric(self%handle, int(index - 1, c_int32_t), told))
    end subroutine

    !> The request at hand is done: what the copy shows now, and of a step, what came of it.
    subroutine answer_request(self, observation, reward, terminated, truncated)
        class(whorl_server), intent(inout) :: self
        real(c_float), intent(in) :: observation(:)
        real(c_double), intent(in) :: reward
        logical, intent(in) :: terminated, truncated
        if (size(observation) /= self%observation_size) error stop "whorl: an observation of another length"
        call check(self, c_answer(self%handle, observation, reward, merge(1_c_int, 0_c_int, terminated), &
                                  merge(1_c_int, 0_c_int, truncated)))
    end subroutine

    !> The request at hand could not be done; its copy will be reset.
    subroutine fail_request(self, why)
        class(whorl_server), intent(inout) :: self
        character(*), intent(in) :: why
        call check(self, c_fail(self%handle, why // c_null_char))
    end subroutine

    subroutine close_server(self)
        class(whorl_server), intent(inout) :: self
        if (c_associated(self%handle)) call c_close(self%handle)
        self%handle = c_null_ptr
    end subroutine

    subroutine check(self, code)
        class(whorl_server), intent(in) :: self
        integer(c_int), intent(in) :: code
        if (code >= 0) return
        write (error_unit, "(a)") "whorl: " // text_at(c_error(self%handle))
        stop 1
    end subroutine

    function text_at(place) result(text)
        type(c_ptr), intent(in) :: place
        character(:), allocatable :: text
        character(kind=c_char), pointer :: characters(:)
        integer :: i, length
        length = int(c_strlen(place))
        call c_f_pointer(place, characters, [length])
        allocate (character(length) :: text)
        do i = 1, length
            text(i:i) = characters(i)
        end do
    end function

end module
