! OpenMP in Fortran: regions, loops, sections, workshare, threadprivate data, reductions, locks. Exit code 1 names what failed.
module checks
  implicit none
  integer :: failures = 0
  integer :: own = 0
  integer, save :: block_own(3) = 0
  !$omp threadprivate(own, block_own)
contains
  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (.not. condition) then
      !$omp critical (report)
      failures = failures + 1
      if (failures <= 10) write (0, '(2a)') 'failed: ', what
      !$omp end critical (report)
    end if
  end subroutine

  subroutine finish()
    if (failures > 0) stop 1
  end subroutine

  ! An orphaned loop with an array argument of unknown shape.
  subroutine orphan(a)
    integer, intent(inout) :: a(:)
    integer :: i
    !$omp do schedule(dynamic, 3)
    do i = 1, size(a)
      a(i) = a(i) + i
    end do
    !$omp end do
  end subroutine
end module

program constructs
  use omp_lib
  use checks
  implicit none
  call omp_set_dynamic(.false.)
  call teams()
  call loops()
  call sharing()
  call reductions()
  call private_data()
  call locks()
  call finish()
contains
  subroutine teams()
    integer :: members, asked, kept, wrong
    integer, allocatable :: seen(:)
    call omp_set_num_threads(3)
    kept = omp_get_max_threads()
    do asked = 1, 6
      allocate (seen(0:asked - 1))
      seen = 0
      members = 0
      wrong = 0
      !$omp parallel num_threads(asked) reduction(+: members, wrong) shared(seen)
      members = members + 1
      seen(omp_get_thread_num()) = seen(omp_get_thread_num()) + 1
      if (omp_get_thread_num() >= omp_get_num_threads()) wrong = wrong + 1
      !$omp end parallel
      call check(members >= 1 .and. members <= asked, 'num_threads')
      call check(all(seen(0:members - 1) == 1) .and. sum(seen) == members .and. wrong == 0, 'thread numbers')
      call check(omp_get_max_threads() == kept, 'omp_get_max_threads')
      deallocate (seen)
    end do
    members = 0
    !$omp parallel if (asked < 0) reduction(+: members)
    members = members + 1
    !$omp end parallel
    call check(members == 1, 'if clause')
  end subroutine

  subroutine loops()
    integer :: i, j, last, next, order(500)
    integer :: a(1000), grid(30, 40), line(20)
    a = 0
    !$omp parallel num_threads(3)
    call orphan(a)
    !$omp end parallel
    call check(all(a == [(i, i=1, 1000)]), 'orphaned loop')
    a = 0
    !$omp parallel do schedule(static, 7) lastprivate(last) num_threads(3)
    do i = 1000, 1, -1
      a(i) = a(i) + 1
      last = i
    end do
    !$omp end parallel do
    call check(all(a == 1) .and. last == 1, 'static loop, downwards')
    grid = 0
    !$omp parallel do collapse(2) schedule(guided) num_threads(3)
    do j = 1, 40
      do i = 1, 30
        grid(i, j) = grid(i, j) + i * j
      end do
    end do
    !$omp end parallel do
    call check(sum(grid) == 465 * 820, 'collapsed loop')
    next = 0
    !$omp parallel do ordered schedule(dynamic) num_threads(3)
    do i = 1, 500
      !$omp ordered
      next = next + 1
      order(next) = i
      !$omp end ordered
    end do
    !$omp end parallel do
    call check(all(order == [(i, i=1, 500)]), 'ordered loop')
    line = 0
    line(1) = 1
    !$omp parallel do ordered(1) schedule(static, 1) num_threads(2)
    do i = 2, 20
      !$omp ordered depend(sink: i - 1)
      line(i) = line(i - 1) + i
      !$omp ordered depend(source)
    end do
    !$omp end parallel do
    call check(line(20) == 210, 'doacross')
    call omp_set_schedule(omp_sched_dynamic, 5)
    a = 0
    !$omp parallel do schedule(runtime) num_threads(3)
    do i = 1, 1000, 3
      a(i) = a(i) + 1
    end do
    !$omp end parallel do
    call check(sum(a) == 334, 'runtime loop')
  end subroutine

  subroutine sharing()
    integer :: x, y, z, times, got
    real(8) :: u(200), v(200)
    x = 0; y = 0; z = 0; times = 0
    !$omp parallel sections num_threads(3)
    !$omp section
    x = 1
    !$omp section
    y = 2
    !$omp section
    z = 3
    !$omp end parallel sections
    call check(x == 1 .and. y == 2 .and. z == 3, 'sections')
    !$omp parallel num_threads(3) private(got)
    !$omp single
    times = times + 1
    got = 42
    !$omp end single copyprivate(got)
    call check(got == 42, 'copyprivate')
    !$omp master
    times = times + 10
    !$omp end master
    !$omp barrier
    !$omp workshare
    u = 2.0d0
    v = 3.0d0 * u + 1.0d0
    !$omp end workshare
    !$omp end parallel
    call check(times == 11, 'single and master')
    call check(all(v == 7.0d0), 'workshare')
  end subroutine

  subroutine reductions()
    integer :: i, most
    integer :: bins(10)
    real(8) :: total
    complex(8) :: z
    logical :: every
    total = 1; most = -1; bins = 0; z = (0, 0); every = .true.
    !$omp parallel do reduction(+: total, bins, z) reduction(max: most) reduction(.and.: every) schedule(dynamic, 4) num_threads(3)
    do i = 1, 1000
      total = total + 0.5d0
      most = max(most, mod(i * 37, 997))
      bins(mod(i, 10) + 1) = bins(mod(i, 10) + 1) + 1
      z = z + cmplx(1, 2, 8)
      every = every .and. i > 0
    end do
    !$omp end parallel do
    call check(total == 501 .and. most == 996 .and. all(bins == 100), 'reductions')
    call check(z == (1000, 2000) .and. every, 'reductions of complex and logical values')
  end subroutine

  subroutine private_data()
    integer :: round, first(5)
    own = 5
    block_own = [1, 2, 3]
    first = 9
    !$omp parallel copyin(own, block_own) num_threads(3) firstprivate(first)
    call check(own == 5 .and. all(block_own == [1, 2, 3]), 'copyin')
    call check(all(first == 9), 'firstprivate array')
    own = omp_get_thread_num()
    first(2) = 0
    !$omp end parallel
    call check(own == 0 .and. first(2) == 9, 'threadprivate of the first thread')
    do round = 1, 20
      own = round
      !$omp parallel num_threads(1 + mod(round, 3))
      !$omp master
      call check(own == round, 'threadprivate of the first thread in a region')
      own = -own
      !$omp end master
      !$omp end parallel
      call check(own == -round, 'threadprivate of the first thread after a region')
    end do
  end subroutine

  subroutine locks()
    integer(omp_lock_kind) :: lock
    integer :: a, b, c, members, i
    a = 0; b = 0; c = 0; members = 0
    call omp_init_lock(lock)
    !$omp parallel num_threads(3) reduction(+: members) private(i)
    members = members + 1
    do i = 1, 500
      !$omp critical (one)
      a = a + 1
      !$omp end critical (one)
      !$omp atomic
      b = b + 2
      call omp_set_lock(lock)
      c = c + 3
      call omp_unset_lock(lock)
    end do
    !$omp end parallel
    call omp_destroy_lock(lock)
    call check(a == 500 * members .and. b == 1000 * members .and. c == 1500 * members, 'critical, atomic, lock')
  end subroutine
end program
