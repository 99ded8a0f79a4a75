! OpenMP tasks in Fortran: recursion, dependences, groups, loops of tasks, allocatable and assumed-shape data. Exit code 1 names what failed.
program recursion
  use omp_lib
  implicit none
  integer :: failures = 0
  call omp_set_dynamic(.false.)
  call numbers()
  call dependences()
  call groups()
  call loops()
  call data()
  if (failures > 0) stop 1
contains
  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (.not. condition) then
      !$omp critical (report)
      failures = failures + 1
      write (0, '(2a)') 'failed: ', what
      !$omp end critical (report)
    end if
  end subroutine

  recursive function fib(n) result(sum)
    integer, intent(in) :: n
    integer :: sum, a, b
    if (n < 2) then
      sum = n
      return
    end if
    !$omp task shared(a) firstprivate(n)
    a = fib(n - 1)
    !$omp end task
    !$omp task shared(b) firstprivate(n)
    b = fib(n - 2)
    !$omp end task
    !$omp taskwait
    sum = a + b
  end function

  subroutine numbers()
    integer :: sum
    !$omp parallel num_threads(2)
    !$omp single
    sum = fib(13)
    !$omp end single
    !$omp end parallel
    call check(sum == 233, 'recursion')
  end subroutine

  subroutine dependences()
    integer :: x, i, seen(8)
    do i = 1, 20
      x = 0
      seen = -1
      !$omp parallel num_threads(3)
      !$omp single
      block
        integer :: k
        !$omp task depend(out: x) shared(x)
        x = 1
        !$omp end task
        do k = 1, 8
          !$omp task depend(in: x) shared(x, seen) firstprivate(k)
          seen(k) = x
          !$omp end task
        end do
        !$omp task depend(inout: x) shared(x, seen)
        x = x + sum(seen)
        !$omp end task
      end block
      !$omp end single
      !$omp end parallel
      call check(x == 9, 'dependences')
    end do
  end subroutine

  subroutine groups()
    integer :: done, i
    done = 0
    !$omp parallel num_threads(3)
    !$omp single
    !$omp taskgroup
    do i = 1, 50
      !$omp task shared(done)
      !$omp task shared(done)
      !$omp atomic
      done = done + 1
      !$omp end task
      !$omp end task
    end do
    !$omp end taskgroup
    call check(done == 50, 'taskgroup')
    !$omp end single
    !$omp end parallel
  end subroutine

  subroutine loops()
    integer :: i, a(500), total
    a = 0
    total = 0
    !$omp parallel num_threads(3)
    !$omp single
    !$omp taskloop grainsize(20)
    do i = 1, 500
      a(i) = a(i) + i
    end do
    !$omp end taskloop
    !$omp taskloop num_tasks(7) reduction(+: total)
    do i = 1, 500
      total = total + a(i)
    end do
    !$omp end taskloop
    !$omp end single
    !$omp end parallel
    call check(total == 125250, 'taskloop with reduction')
  end subroutine

  ! gfortran copies allocatable data into a task by a function.
  subroutine data()
    integer, allocatable :: list(:)
    character(20) :: text
    integer :: i, wrong
    wrong = 0
    allocate (list(30))
    list = 0
    !$omp parallel num_threads(3) firstprivate(list)
    !$omp single
    do i = 1, 40
      list(5) = i
      write (text, '(a, i0)') 'number ', i
      !$omp task firstprivate(list, text, i) shared(wrong)
      if (list(5) /= i .or. size(list) /= 30 .or. list(30) /= 0) then
        !$omp atomic
        wrong = wrong + 1
      end if
      if (text(1:7) /= 'number ') then
        !$omp atomic
        wrong = wrong + 1
      end if
      list(30) = 1
      !$omp end task
    end do
    !$omp end single
    !$omp end parallel
    call check(wrong == 0, 'firstprivate allocatable data')
  end subroutine
end program
