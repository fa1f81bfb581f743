# One server, for workers that are elsewhere. Build: docker build -t orchestai . ; compose.yaml says what it needs.
FROM python:3.12-slim
WORKDIR /app
COPY . /app
RUN pip install --no-cache-dir -c constraints.txt '.[postgres]'
RUN useradd --create-home orchestai && mkdir /data && chown orchestai /data
USER orchestai
WORKDIR /data
EXPOSE 8080
ENTRYPOINT ["orchestai"]
CMD ["serve", "--host", "0.0.0.0"]
