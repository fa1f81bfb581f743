from orchestai.cli import main

main()
